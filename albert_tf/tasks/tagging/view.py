"""How the server's page shows spans."""

from albert_tf.serving.client import views


def show_spans(texts: views.Texts, answer: views.Answer) -> views.View:
    text, spans, passage, stop = texts["text"], answer["spans"], [], 0
    for span in spans:
        start, end = span["start"], span["end"]
        passage += [(text[stop:start], False), (text[start:end], True)]
        stop = end
    passage.append((text[stop:], False))
    names, scores, labels = (
        [span[key] for span in spans] for key in ("text", "score", "label")
    )
    charts = {"Spans": views.bars(names, scores, labels)} if spans else {}
    count = len(spans)
    headline = f"{count or 'No'} span{'' if count == 1 else 's'}"
    return views.View(headline, passage, charts, views.notes_of(answer))


OUTPUT = "num_spans"  # Only models that tag have it.
KIND = views.Kind(
    "Spans", "Names and the like are marked.", {"text": views.STORY}, show_spans
)
