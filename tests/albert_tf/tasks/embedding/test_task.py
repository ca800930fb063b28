"""Vectors of texts as a task: records, metrics, answers."""

import numpy as np
import pytest
from scipy import stats

from albert_tf.common import options, rows
from albert_tf.common.packed_vectors import VectorOptions
from albert_tf.finetuning import base, packing, registry
from albert_tf.tasks.embedding import retrieval
from albert_tf.tasks.embedding import task as embedding
from tests.conftest import refused

TEXTS = [("It rains.", "It is wet."), ("We stay.", "Nobody goes anywhere.")]


def make(tokenizer, length=8, **options):
    return embedding.EmbeddingTask(
        tokenizer, length, embedding.EmbeddingOptions(**options)
    )


def group(*texts, score=None):
    place = rows.LineKey({"text": texts[0]})  # As without an id.
    return packing.TextExample(place, texts, score)


def records(task, examples, split):
    (found,) = task.featurize(examples, split)
    layout = {feature.name: feature.shape for feature in task.layout(split)}
    assert {name: value.shape[1:] for name, value in found.items()} == layout
    return found


def test_each_text_is_a_sequence_of_its_own(tiny_tokenizer):
    task = make(tiny_tokenizer, max_score=5.0)
    examples = [
        group(*texts, score=s) for texts, s in zip(TEXTS, (1, 4), strict=True)
    ]
    task.remarks = {}
    found = records(task, examples, base.TRAIN)
    for row, texts in zip(found["input_ids"], TEXTS, strict=True):
        for ids, text in zip(row, texts, strict=True):
            pieces = tiny_tokenizer.encode(text)[:6]
            cls, sep = tiny_tokenizer.cls_id, tiny_tokenizer.sep_id
            expected = [cls, *pieces, sep]
            assert ids.tolist() == expected + [0] * (8 - len(expected))
    np.testing.assert_array_equal(found["input_mask"], found["input_ids"] > 0)
    np.testing.assert_allclose(found["label_ids"], [0.2, 0.8])
    assert task.settings["max_score"] == 5
    (cut,) = task.remarks.values()
    assert [place.key["text"] for place in cut] == ["It rains.", "We stay."]
    longest = max(len(tiny_tokenizer.encode(text)) for text in TEXTS[0])
    exact = make(tiny_tokenizer, longest + 2)
    exact.remarks = {}
    records(exact, examples[:1], base.TRAIN)
    assert not exact.remarks
    alone = records(task, [group("It rains.")], base.PREDICT)
    np.testing.assert_array_equal(
        alone["input_ids"][0], found["input_ids"][0, 0]
    )


def test_texts_of_nothing_are_told(tiny_tokenizer):
    """A zero-width space is removed in cleaning."""
    task = make(tiny_tokenizer, max_score=5.0)
    task.remarks = {}
    examples = [group("a", "b"), group("c", "\u200b"), group("d", "")]
    records(task, examples, base.DEV)
    assert list(task.remarks) == [packing.EMPTY]
    assert len(task.remarks[packing.EMPTY]) == 2


def test_splits_may_have_other_examples(tiny_tokenizer):
    task = make(
        tiny_tokenizer, train_examples="triplets", dev_examples="scored"
    )
    assert task.sequences_at_once == 3
    other = make(
        tiny_tokenizer, train_examples="pairs", dev_examples="triplets"
    )
    assert other.sequences_at_once == 3
    triplet = group("a", "b", "c")
    assert "label_ids" not in records(task, [triplet], base.TRAIN)
    assert "label_ids" in records(task, [group("a", "b", score=1)], base.DEV)


def unit(*rows):
    x = np.array(rows, np.float32)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def test_cosines_are_compared_with_scores(tiny_tokenizer):
    task = make(tiny_tokenizer)
    usual = embedding.EmbeddingOptions("scored", None, None, None, 1.0, 0.05)
    assert task.options == usual
    vectors = unit(*np.random.default_rng(0).normal(size=[9, 2, 4]))
    examples = [group("a", "b", score=n % 4) for n in range(9)]
    cosines = np.einsum("nd,nd->n", vectors[:, 0], vectors[:, 1])
    expected = [example.label for example in examples]
    assert task.key_metric == "spearmanr"
    assert task.score({"embedding": vectors}, examples) == pytest.approx(
        {
            "spearmanr": stats.spearmanr(cosines, expected).statistic,
            "pearson": stats.pearsonr(cosines, expected).statistic,
        }
    )
    answers = [
        answer["prediction"]
        for answer in task.answers({"embedding": vectors}, examples)
    ]
    np.testing.assert_allclose(answers, cosines, rtol=1e-5)


@pytest.mark.parametrize("kind", ["scored", "pairs"])
def test_prefixes_have_scores_of_vectors_cut_to_them(tiny_tokenizer, kind):
    task, alone = (
        make(tiny_tokenizer, train_examples=kind, prefix_dimensions=sizes)
        for sizes in ("4,2", None)
    )
    vectors = unit(*np.random.default_rng(0).normal(size=[9, 2, 6]).tolist())
    examples = [group(f"a {n}", f"b {n}", score=n) for n in range(9)]
    expected = alone.score({"embedding": vectors}, examples)
    for size in 2, 4:
        cut = unit(*vectors[..., :size].tolist())
        of_cut = alone.score({"embedding": cut}, examples)
        expected[f"{task.key_metric}_{size}"] = of_cut[task.key_metric]
    scores = task.score({"embedding": vectors}, examples)
    assert scores == pytest.approx(expected)
    joined = task.combine([{"embedding": vectors}] * 2)
    assert task.score(joined, examples).keys() == expected.keys() - {
        f"{task.key_metric}_2",
        f"{task.key_metric}_4",
    }


@pytest.mark.parametrize("precision", [None, "int8", "binary"])
def test_answers_and_scores_are_those_of_packed_vectors(
    tiny_tokenizer, precision
):
    """Scores of an export, which packs by itself, are the same."""
    given_out = VectorOptions(16, precision)
    rng = np.random.default_rng(2)
    vectors = unit(*rng.normal(size=[40, 2, 64]).tolist())
    examples = [group(*TEXTS[0], score=n) for n in rng.normal(size=40)]
    task, plain = (
        make(tiny_tokenizer, given_out=form, prefix_dimensions="32")
        for form in (given_out, VectorOptions())
    )
    scores = task.score({"embedding": vectors}, examples)
    rounded = given_out.rounded(vectors)
    expected = plain.score({"embedding": rounded}, examples)
    of_prefix = plain.score({"embedding": vectors}, examples)["spearmanr_32"]
    assert scores == pytest.approx(expected | {"spearmanr_32": of_prefix})
    packed = given_out.pack(vectors).reshape(80, -1)
    of_export = task.score_outputs({"embedding": packed}, examples)
    assert of_export == pytest.approx(
        {name: scores[name] for name in ("spearmanr", "pearson")}
    )
    (answer,) = task.answers({"embedding": vectors[:1, 0]}, [group("a")])
    assert answer["embedding"] == packed[0].tolist()
    (answer,) = task.answers({"embedding": vectors[:1]}, [group("a", "b")])
    cosine = (rounded[0, 0] * rounded[0, 1]).sum()
    assert answer["prediction"] == pytest.approx(cosine)
    for _ in base.DEV, base.TEST:  # An ensemble of two that agree does so.
        joined = task.combine([{"embedding": vectors}] * 2)
        found = task.score(joined, examples)["pearson"]
        assert found == pytest.approx(of_export["pearson"])


def test_a_run_keeps_what_is_given_out(tiny_tokenizer):
    settings = embedding.EmbeddingOptions(given_out=VectorOptions(16, "int8"))
    values = {"task_name": "embedding", "max_seq_length": 8}
    values |= options.to_dict(settings)
    task = registry.make(values, tiny_tokenizer)
    assert task.given_out == VectorOptions(16, "int8")
    with refused("`dimensions=16` is more than a vector has, 8"):
        task.check_config(8)


@pytest.mark.parametrize("sizes", ["", "0", "2,", "-1", "1.5", "a"])
def test_prefixes_are_numbers(tiny_tokenizer, sizes):
    with refused("prefix_dimensions.* must be numbers"):
        make(tiny_tokenizer, prefix_dimensions=sizes)


def test_a_prefix_longer_than_the_vector_is_refused(tiny_tokenizer):
    facts = embedding.VectorFacts(projection_size=24)
    settings = embedding.EmbeddingOptions(prefix_dimensions="8,24,32")
    task = embedding.EmbeddingTask(tiny_tokenizer, 8, settings, facts)
    with refused("prefix_dimensions=8,24,32`? has more numbers .* 24"):
        task.check_config(64)
    make(tiny_tokenizer, prefix_dimensions="64").check_config(64)


def test_ranks_count_each_text_once_and_share_ties(monkeypatch):
    """Of three second texts, two are the same and two have one vector."""
    monkeypatch.setattr(retrieval, "_BATCH", 2)
    x, y = [1.0, 0.0], [0.0, 1.0]
    vectors = unit([x, x], [y, x], [y, y], [x, x])
    texts = [("1", "a"), ("2", "a"), ("3", "b"), ("4", "c")]
    found = embedding.ranks(vectors, texts)
    # a and c share ranks 1 and 2 for x, ranks 2 and 3 for y.
    np.testing.assert_allclose(found, [1.5, 2.5, 1, 1.5])


def test_another_right_answer_does_not_count_as_wrong():
    """Each query has two answers, which its vector equals."""
    x, y = [1.0, 0.0], [0.0, 1.0]
    vectors = unit([x, x], [x, x], [y, y], [y, y])
    texts = [("1", "a"), ("1", "b"), ("2", "c"), ("2", "d")]
    assert embedding.ranks(vectors, texts).tolist() == [1, 1, 1, 1]


def test_a_text_need_not_be_told_from_itself():
    """It is the second text of another example, as in files of questions."""
    x, near, far = [1.0, 0.0], [1.0, 0.2], [0.0, 1.0]
    other = [-1.0, -1.0]  # Its right text is itself.
    vectors = unit([x, near], [far, x], [near, far], [other, other])
    texts = [("1", "2"), ("3", "1"), ("2", "3"), ("4", "4")]
    assert embedding.ranks(vectors, texts).tolist() == [1, 2, 2, 1]


def test_one_vector_for_all_is_a_rank_in_the_middle(
    tiny_tokenizer, monkeypatch
):
    task = make(tiny_tokenizer, train_examples="pairs")
    examples = [group(f"a {n}", f"b {n}") for n in range(600)]
    vectors = np.ones([600, 2, 1], np.float32)
    scores = task.score({"embedding": vectors}, examples)
    assert scores == pytest.approx(
        {"mrr": 1 / 300.5, "recall_at_1": 0, "recall_at_10": 0}
    )
    # The rank itself belongs to its recall.
    places = np.array([1, 1.5, 10, 10.5])
    monkeypatch.setattr(embedding, "ranks", lambda *_: places)
    scores = task.score({"embedding": vectors}, examples)
    assert (scores["recall_at_1"], scores["recall_at_10"]) == (0.25, 0.75)
    (answer,) = task.answers({"embedding": vectors[0, :1]}, [group("a")])
    assert answer == {"text": "a", "embedding": [1.0]}


def test_triplets_are_right_or_wrong(tiny_tokenizer):
    task = make(tiny_tokenizer, train_examples="triplets")
    x, y = [1.0, 0.1], [0.1, 1.0]
    examples = [group("a", "b", "c"), group("d", "e", "f")]
    vectors = unit([x, x, y], [x, y, x])
    scores = task.score({"embedding": vectors}, examples)
    assert scores["accuracy"] == 0.5
    equal = task.score({"embedding": unit([x, y, y])}, examples[:1])
    assert equal["accuracy"] == 0
    assert scores["recall_at_1"] == 0
    # The best of a shares its place with f; e shares the last with c.
    assert scores["mrr"] == pytest.approx((1 / 1.5 + 1 / 3.5) / 2)


def test_joined_vectors_have_the_mean_of_the_cosines(tiny_tokenizer):
    task = make(tiny_tokenizer)
    rng = np.random.default_rng(1)
    runs = [unit(*rng.normal(size=[3, 2, n])) for n in (4, 6)]
    joined = task.combine([{"embedding": run} for run in runs])["embedding"]
    cosines = [embedding._cosines(vectors) for vectors in (*runs, joined)]
    np.testing.assert_allclose(cosines[2], np.mean(cosines[:2], 0), rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(joined, axis=-1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "rows", "message"),
    [
        ("scored", [], "has no examples"),
        ("scored", ["a\tb\t4"], "`max_score=1.0` allows .* to 1; .* 1 .* is 4"),
        ("scored", ["a\tb\t0", "c\td\t-2"], "from -1 .* 2 .* is -2"),
        ("pairs", ["a\tb\t1"], "has one pair only"),
        ("pairs", ["a\tb\t1"] * 3, "has one pair only"),
    ],
)
def test_training_files_of_no_use_are_refused(
    tiny_tokenizer, tmp_path, kind, rows, message
):
    path = tmp_path / "train.tsv"
    lines = ["text\ttext_pair\tscore", *rows, ""]
    path.write_text("\n".join(lines if rows else rows))
    task = make(tiny_tokenizer, train_examples=kind)
    with refused(message):
        task.read(str(path), base.TRAIN)
    if rows:  # The scale of scores does not matter to correlations.
        assert len(task.read(str(path), base.DEV)) == len(rows)


def test_equal_scores_of_a_development_file_are_told(
    tiny_tokenizer, tmp_path, caplog
):
    path = tmp_path / "dev.tsv"
    path.write_text("text\ttext_pair\tscore\na\tb\t3\nc\td\t3\n")
    task = make(tiny_tokenizer, max_score=3.0)
    task.read(str(path), base.TRAIN)
    assert not caplog.text
    task.read(str(path), base.DEV)
    assert "every score is 3" in caplog.text
    path.write_text("text\ttext_pair\na\tb\n")
    assert len(task.read(str(path), base.TEST)) == 1
    with refused("has no 'score'"):
        task.read(str(path), base.DEV)
