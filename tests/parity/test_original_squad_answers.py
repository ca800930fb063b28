"""Answers to SQuAD from recorded model outputs, and official scores.

Recorded are the answers of the original's `write_predictions_v1` and `_v2` for
random outputs, and the official scores of these and of nearly correct answers.
See tests/fixtures/README.md.
"""

import json

import numpy as np
import pytest

from albert_tf.tasks.squad import data as squad_data
from albert_tf.tasks.squad import metrics as squad_metrics
from albert_tf.tasks.squad import portable
from albert_tf.tasks.squad import results as squad_results
from tests.parity.test_original_squad import find_windows

# Answers in an n-best list, pieces of the longest answer, and the unit of the
# logits of version 1.1, which are recorded as whole numbers.
SETTINGS = {"384_128_64": (20, 30, 1 / 32), "96_32_16": (7, 12, 1 / 8)}
on_all_recordings = pytest.mark.parametrize(
    "name", [f"dev-v{v}_{how}" for v in ("1.1", "2.0") for how in SETTINGS]
)
of_version_2 = pytest.mark.parametrize(
    "name", [f"dev-v2.0_{how}" for how in SETTINGS]
)
FOLDER = "original_squad_answers"
# Probabilities: softmaxes in float64, the sums in another order.
ATOL = 1e-12


@pytest.fixture
def recorded(own_text, name):
    return lambda kind: json.loads(
        own_text.read(f"{FOLDER}/{name}_{kind}.json.gz")
    )


@pytest.fixture
def answered(own_text, name):
    size, longest, unit = SETTINGS[name.split("_", 1)[1]]
    questions, windows, _ = find_windows(own_text, name)
    path = own_text.recordings / FOLDER / f"{name}_outputs.npz"
    outputs = dict(np.load(path))
    if "start_logits" in outputs:
        outputs = {k: v * np.float32(unit) for k, v in outputs.items()}
    cls_logits = outputs.pop("cls_logits", None)
    ranked = portable.n_best(
        [question.context for question in questions],
        windows,
        portable.blocks(outputs),
        portable.Search(size, longest, cls_logits is not None),
        white_space=True,
    )
    found = {q.id: best for q, best in zip(questions, ranked, strict=True)}
    null = {}
    if cls_logits is not None:
        scores = portable.null_scores(windows, cls_logits)
        null = dict(zip((q.id for q in questions), scores, strict=True))
    return found, null


@on_all_recordings
def test_n_best_lists_are_those_of_the_original(recorded, answered):
    found, _ = answered
    expected = recorded("nbest")
    assert found.keys() == expected.keys() and len(expected) == 40
    for id_, entries in expected.items():
        best = found[id_]
        assert [c.text for c in best] == [entry["text"] for entry in entries]
        for name in ("probability", "start_log_prob", "end_log_prob"):
            np.testing.assert_allclose(
                [getattr(candidate, name) for candidate in best],
                [entry[name] for entry in entries],
                atol=ATOL,
                rtol=0,
            )


@on_all_recordings
def test_predictions_are_those_of_the_original(recorded, answered):
    found, _ = answered
    texts = {id_: best[0].text for id_, best in found.items()}
    assert texts == recorded("predictions")


@of_version_2
def test_null_odds_and_thresholded_answers_are_those_of_the_original(
    recorded, answered
):
    found, null = answered
    assert null == recorded("null_odds")
    results = squad_results.Results((), found, null, original_threshold=True)
    texts = results.texts(0.0)
    expected = recorded("predictions_threshold_0")
    assert texts == expected
    assert {True, False} == {text == "" for text in expected.values()}


def test_scores_are_those_of_the_official_scripts(own_text):
    runs = own_text.read_rows("official_squad_scores.jsonl.gz")
    assert len(runs) == 16
    for run in runs:
        path = own_text.data / "squad" / f"{run['file']}.json"
        questions = squad_data.read(str(path), "file")
        predictions = run["predictions"]
        if run["file"] == "dev-v1.1":
            found = squad_metrics.score_version_1(questions, predictions)
        elif "null_odds" in run:
            found = squad_metrics.score_version_2(
                questions,
                predictions,
                run["null_odds"],
                threshold=run["threshold"],
            )
        else:
            found = squad_metrics.score_version_2(questions, predictions)
        assert found == run["scores"]
