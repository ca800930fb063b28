"""What the page shows, without a model and without HTTP."""

import types

import pytest

from albert_tf.serving.client import views
from albert_tf.tasks.race import view as race_view
from albert_tf.tasks.squad import view as squad_view
from albert_tf.tasks.tagging import view as tag_view
from tests.conftest import refused


def test_answer_in_bytes_becomes_parts_of_text():
    answer = {
        "answer": "\u00e9 \U0001f600",
        "start": 6,
        "end": 13,
        "n_best_answers": ["\u00e9 \U0001f600", "a", ""],
        "n_best_probabilities": [0.75, 0.25, 0.0],
        "n_best_scores": [2.0, -1.125, 0.0],
        "question_truncated": True,
    }
    texts = {"context": "\U0001f600 a\u00e9 \U0001f600."}
    assert squad_view.show_answer(texts, answer) == views.View(
        "\u00e9 \U0001f600",
        [("\U0001f600 a", False), ("\u00e9 \U0001f600", True), (".", False)],
        {
            "Best answers": [
                ("\u00e9 \U0001f600", 0.75, "score 2.00"),
                ("a", 0.25, "score -1.12"),
            ]
        },
        ["The question is too long: its end was left out."],
    )


def test_no_answer_highlights_nothing():
    answer = {
        "answer": "",
        "start": 0,
        "end": 0,
        "n_best_answers": ["rain"],
        "n_best_probabilities": [1.0],
        "n_best_scores": [0.5],
        "no_answer_probability": 0.875,
    }
    view = squad_view.show_answer({"context": "The rain."}, answer)
    assert view.headline == "No answer"
    assert view.passage == [("", False), ("", True), ("The rain.", False)]
    assert view.charts["No answer"] == [("The text has no answer", 0.875, "")]


@pytest.mark.parametrize(
    "piece, word",
    [
        ("\u2581rain", "rain"),
        ("##ing", "ing"),
        ("s", "s"),
        ("\u2581", "\u2581"),
    ],
)
def test_marks_of_pieces_are_left_out_of_the_text(piece, word):
    answer = {"pieces": [[piece]], "probabilities": [[1.0]]}
    view = views.show_masks({"text": "[MASK]"}, answer)
    assert view.passage[1] == (word, True)
    assert view.charts == {"Mask 1": [(piece, 1.0, "")]}


def test_masks_beyond_the_end_stay():
    answer = {
        "pieces": [["▁rain", "▁"], ["b", "c"]],
        "probabilities": [[0.75, 0.25], [0.5, 0.25]],
        "truncated": True,
    }
    view = views.show_masks({"text": "The [MASK] [MASK] [MASK]."}, answer)
    assert (
        "|".join(text for text, _ in view.passage) == "The |rain| |b| |[MASK]|."
    )
    assert [n for n, (_, marked) in enumerate(view.passage) if marked] == [1, 3]
    assert view.charts == {
        "Mask 1": [("▁rain", 0.75, ""), ("▁", 0.25, "")],
        "Mask 2": [("b", 0.5, ""), ("c", 0.25, "")],
    }
    assert view.notes == [
        "The text is too long for the model: a part was left out."
    ]


def test_masks_that_the_model_finds_beyond_those_of_the_text():
    """Of a cased vocabulary, whose normalization makes one."""
    answer = {"pieces": [["a"], ["b"]], "probabilities": [[1.0], [1.0]]}
    text = "[MASK] or \uff3bMASK\uff3d"
    view = views.show_masks({"text": text}, answer)
    expected = ["", "a", " or \uff3bMASK\uff3d", "b", ""]
    assert [text for text, _ in view.passage] == expected


def test_text_without_a_mask():
    with refused(r"There is no \[MASK\] in the"):
        views.show_masks({"text": "It rains."}, {"pieces": []})


def test_options_that_were_left_empty_have_no_bar():
    answer = {"label": "C", "choice": 2, "probabilities": [0.25, 0.5, 0.25]}
    view = race_view.show_choice({"options": ["sea", "", "sky"]}, answer)
    assert view.headline == "C: sky"
    assert view.charts["Options"] == [("sea", 0.25, ""), ("sky", 0.25, "")]


def test_labels_and_scores():
    answer = {"label": "yes", "labels": ["no", "yes"], "probabilities": [0, 1]}
    view = views.show_label({}, answer)
    assert view.headline == "yes"
    assert view.charts["Classes"] == [("no", 0, ""), ("yes", 1, "")]
    assert views.show_score({}, {"score": 2.346}).headline == "Score 2.35"


def test_spans_are_marked():
    spans = [
        {"start": 0, "end": 3, "label": "PER", "score": 0.9, "text": "Ivo"},
        {"start": 8, "end": 12, "label": "LOC", "score": 0.5, "text": "Nord"},
    ]
    view = tag_view.show_spans({"text": "Ivo saw Nord."}, {"spans": spans})
    assert view.headline == "2 spans"
    assert [part for part in view.passage if part[0]] == [
        ("Ivo", True),
        (" saw ", False),
        ("Nord", True),
        (".", False),
    ]
    assert view.charts["Spans"] == [("Ivo", 0.9, "PER"), ("Nord", 0.5, "LOC")]
    one = tag_view.show_spans({"text": "Ivo saw Nord."}, {"spans": spans[1:]})
    assert one.headline == "1 span"
    empty = tag_view.show_spans({"text": "Rain."}, {"spans": []})
    assert (empty.headline, empty.charts) == ("No spans", {})


def form(**inputs):
    return views.Form("serving_default", inputs, race_view.KIND)


def test_form_has_as_many_options_as_the_model():
    samples = race_view.KIND.samples["options"]
    for count in (2, 6):
        found = form(options=count, question=1).to_dict()
        assert list(found["fields"]) == ["question", "options"]
        assert found["fields"]["options"] == (samples + ["", ""])[:count]
    assert found["title"] == "Multiple choice"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"question": " \n"}, "The question is empty. Fill it in."),
        ({"options": ["a", " ", "", ""]}, "Fill in two options at least."),
    ],
)
def test_forms_with_empty_fields(texts, message):
    filled = {"question": "What?", "options": ["a", "", "", "e"]}
    form(question=1, options=4).check(filled)
    with refused(message):
        form(question=1, options=4).check({**filled, **texts})


def test_the_first_signature_that_can_be_shown_is_it():
    def signature(inputs, *outputs):
        specs = dict.fromkeys(inputs.split())
        return types.SimpleNamespace(
            specs=specs, inputs=inputs, outputs=outputs
        )

    shown = {
        "a": signature("ids", "label"),
        "d": signature("text text_pair", "label"),
        "b": signature("text", "label"),
        "c": signature("text", "pieces"),
    }
    found = views.find(shown)
    assert found == views.Form("c", "text", views.KINDS["pieces"])
    del shown["c"]
    assert views.find(shown) == views.Form("b", "text", views.KINDS["label"])
    # As another project might name its own.
    assert views.find({"a": shown["a"]}) is None
    assert views.find({"x": signature("text", "pooled_output")}) is None


def test_several_labels_are_listed():
    answer = {"labels": ["a", "b"], "probabilities": [0.75, 0.5]}
    view = views.show_labels({}, {**answer, "predicted": ["a", "b"]})
    assert view.headline == "a, b"
    assert view.charts == {"Labels": [("a", 0.75, ""), ("b", 0.5, "")]}
    assert views.show_labels({}, {**answer, "predicted": []}).headline == (
        "No label"
    )
