import math
import pathlib

import numpy as np
import pytest

from albert_tf.data import layouts, manifests, masking
from albert_tf.text import tokenization
from data_prep import create_pretraining_data
from data_prep.writer import instances, statistics
from tests.data_prep import writing


@pytest.fixture
def warnings(monkeypatch):
    """All that the writer warns of.

    Not caplog: what it sees depends on what absl did in earlier tests.
    """
    found = []
    monkeypatch.setattr(
        create_pretraining_data.writer_options.logging,
        "warning",
        lambda message, *values: found.append(message % values),
    )
    return found


def run_text(base, tmp_path, text, **changes):
    """Write the records of a text, full sequences; return the manifest."""
    (tmp_path / "c").write_text(text)
    writing.run(
        base, input_file=str(tmp_path / "c"), short_seq_prob=0.0, **changes
    )
    return manifests.find(base.output_file)


def test_tokens_that_are_cut_off_are_counted(base, tmp_path, warnings):
    """By hand: sentences of 20 and 24 tokens, 29 fit beside the markers."""
    tokenizer = tokenization.Tokenizer(base.vocabulary.path, True)
    sentences = ["it rains " * 5, "it rains " * 6]
    assert [len(tokenizer.encode(s)) for s in sentences] == [20, 24]
    text = "".join(f"{sentence}\n" for sentence in sentences)
    manifest = run_text(base, tmp_path, text)
    assert manifest.corpus["tokens_paired"] == 3 * 44
    assert manifest.corpus["tokens_cut"] == 3 * (44 - 29)
    assert manifest.summary["share_of_tokens_cut"] == 15 / 44
    card = pathlib.Path(f"{base.output_file}.card.md").read_text()
    assert "- cut off to fit: 34.1% of the tokens" in card
    assert not any("cuts" in warning for warning in warnings)


def test_text_of_which_much_is_cut_off_is_warned_of(base, tmp_path, warnings):
    """A file with the line ends of old Macs is one sentence of 800 tokens."""
    manifest = run_text(base, tmp_path, "it rains\r" * 200)
    assert manifest.corpus["tokens_paired"] == 3 * 800
    assert manifest.corpus["tokens_cut"] == 3 * (800 - 29)
    (warning,) = (w for w in warnings if "cuts" in w)
    assert "cuts off 96.4 % of the tokens, 771 of each instance" in warning


def test_counts_by_hand():
    rows = np.zeros(5, instances.ROW)
    rows["label"] = [1, layouts.NO_LABEL, 0, 1, 1]
    rows["first"], rows["second"] = [2, 3, 1, 4, 1], [1, 0, 2, 1, 1]
    rows["single_sentence"] = [1, 0, 1, 1, 0]
    found = statistics.count(rows, np.array([6, 5, 6, 8, 5]), 9)
    assert statistics.to_json(found) == {
        **{"instances": 5, "label_1": 3, "unlabelled": 1, "lone": 3},
        **{"tokens": 30, "lengths": [0, 0, 0, 0, 0, 2, 2, 0, 1, 0]},
        "segment_lengths": [1, 5, 2, 1, 1, 0, 0, 0, 0, 0],
    }
    masked = masking.MaskedBatch(
        input_ids=np.array([[2, 4, 7, 4, 9], [2, 8, 6, 4, 3]]),
        token_boundary=np.zeros([2, 5]),
        positions=np.array([[1, 2, 3], [1, 0, 0]]),
        labels=np.array([[5, 7, 4], [5, 0, 0]]),
        counts=np.array([3, 1]),
        run_lengths=np.array([0, 2, 1]),
    )
    found = statistics.count_masked(masked, mask_id=4)
    assert statistics.to_json(found) == {
        **{"predictions": 4, "masked": 2, "kept": 1},
        **{"run_lengths": [0, 2, 1], "labels": [0, 0, 0, 0, 1, 2, 0, 1]},
    }
    shown, labels = np.array([4, 4, 5, 6, 7, 8]), np.array([4, 5, 5, 9, 9, 9])
    replaced = statistics.count_replaced(shown, labels, mask_id=4)
    assert replaced.tolist() == [2, 1, 3]
    short = {"labels": np.array([1, 2]), "kept": 3}
    for one, other in ((found, short), (short, found)):
        stored = statistics.add({}, statistics.to_json(one))
        both = statistics.to_json(statistics.add(stored, other))
        assert both["labels"] == [1, 2, 0, 0, 1, 2, 0, 1]
        assert both["kept"] == 4 and both["run_lengths"] == [0, 2, 1]


def test_summary_by_hand():
    """Four records of 3, 4, 6 and 7 tokens; two have no label."""
    counts = {
        **{"instances": 4, "label_1": 1, "unlabelled": 2, "lone": 3},
        **{"tokens": 20, "lengths": np.array([0, 0, 0, 1, 1, 0, 1, 1])},
        **{"predictions": 5, "masked": 3, "kept": 1},
        **{"run_lengths": np.array([9, 3, 1]), "labels": np.array([0, 4, 1])},
    }
    cut = {"tokens_cut": 6, "tokens_paired": 24}
    found = statistics.summarize(counts, 8, cut)
    assert found.pop("entropy_of_labels") == pytest.approx(0.5004, abs=1e-4)
    assert found == {
        "instances": 4,
        "tokens_per_instance": 5,
        "length_percentiles_5_25_50_75_95": [
            pytest.approx(value) for value in (3.15, 3.75, 5, 6.25, 6.85)
        ],
        **{"share_of_padding": 0.375, "share_of_tokens_cut": 0.25},
        **{"share_of_label_1": 0.5, "share_without_label": 0.5},
        **{"share_of_single_sentence_chunks": 0.75},
        **{"predictions_per_instance": 1.25, "share_of_tokens_predicted": 0.25},
        **{"share_masked": 0.6, "share_kept": 0.2},
        "share_replaced": pytest.approx(0.2),
        "share_of_runs_of_n_words": [0.75, 0.25],
        "share_of_most_frequent_label": 0.8,
    }


@pytest.mark.parametrize(
    ("counts", "entropy"),
    [
        ([0, 3, 3, 0, 3, 3], math.log(4)),
        ([0, 7], 0),
        ([1, 3], 0.25 * math.log(4) + 0.75 * math.log(4 / 3)),
        ([0, 0], 0),
        ([], 0),
    ],
)
def test_entropy(counts, entropy):
    found = statistics.entropy(np.array(counts, np.int64))
    assert found == pytest.approx(entropy, abs=1e-15)


def test_percentiles_equal_those_of_numpy():
    rng = np.random.default_rng(1)
    values, counts = rng.permutation(50) / 7, rng.integers(0, 4, 50)
    found = statistics.percentiles(values, counts)
    wanted = np.percentile(np.repeat(values, counts), statistics.PERCENTILES)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
