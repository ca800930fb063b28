"""How the server's page shows a choice."""

from albert_tf.serving.client import views


def show_choice(texts: views.Texts, answer: views.Answer) -> views.View:
    options = texts["options"]
    headline = f"{answer['label']}: {options[answer['choice']]}"
    charts = {"Options": views.bars(options, answer["probabilities"])}
    return views.View(headline, (), charts, views.notes_of(answer))


OUTPUT = "choice"  # Only models that choose have it.
KIND = views.Kind(
    "Multiple choice",
    "Two options are needed at least. An underscore in the question is a gap "
    "that the option fills.",
    {
        "article": views.STORY,
        "question": "Mara bought two _.",
        "options": ["tickets", "lamps", "boats", "maps"],
    },
    show_choice,
)
