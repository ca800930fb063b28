"""How the server's page shows the answer to a question."""

from albert_tf.serving.client import views


def show_answer(texts: views.Texts, answer: views.Answer) -> views.View:
    """Highlight the answer, whose offsets are bytes, in its context."""
    context = texts["context"].encode()
    start, end = answer["start"], answer["end"]
    passage = [
        (context[:start].decode(), False),
        (context[start:end].decode(), True),
        (context[end:].decode(), False),
    ]
    scores = [f"score {score:.2f}" for score in answer["n_best_scores"]]
    names, probabilities = (
        answer[f"n_best_{name}"] for name in ("answers", "probabilities")
    )
    charts = {}
    if "no_answer_probability" in answer:
        probability = answer["no_answer_probability"]
        charts["No answer"] = views.bars(
            ["The text has no answer"], [probability]
        )
    charts["Best answers"] = views.bars(names, probabilities, scores)
    headline = answer["answer"] or "No answer"
    return views.View(headline, passage, charts, views.notes_of(answer))


OUTPUT = "answer"  # Only models that answer questions have it.
KIND = views.Kind(
    "Questions and answers",
    "The answer is looked for in the context.",
    {"question": "Where does the ferry leave?", "context": views.STORY},
    show_answer,
)
