"""What draws the examples of each objective."""

import contextlib

import pytest

from albert_tf.data import (
    drawing,
    examples,
    marks,
    masking,
    passages,
    permutation,
    span_corruption,
    stages,
    tfrecord,
)
from albert_tf.training import pretraining_drawer
from tests.albert_tf.training import recipes
from tests.conftest import refused
from tests.data_prep import writing


@pytest.fixture
def make(tiny_tokenizer):
    def make(records="passages", num_segments=2, **values):
        return pretraining_drawer.make_drawer(
            recipes.make(**values),
            masking.MaskingOptions(max_predictions_per_seq=8),
            tiny_tokenizer,
            records=records,
            max_seq_length=32,
            num_segments=num_segments,
        )

    return make


@pytest.mark.parametrize(
    ("objective", "kind"),
    [
        ("mlm", drawing.Masks),
        ("rtd", drawing.Masks),
        ("plm", permutation.PermutationDrawer),
        ("spans", span_corruption.SpanDrawer),
    ],
)
def test_each_objective_has_a_drawer(make, objective, kind):
    given = {"objective": objective, "sentence_objective": "none"}
    assert isinstance(make("instances", **given), kind)
    found = make(**given)
    if kind is drawing.Masks:
        assert isinstance(found, passages.PassageDrawer)
        assert found.masks.masker.num_predictions == 8
    else:
        assert isinstance(found, drawing.Chain)
        assert isinstance(found.second, kind)


def test_spans_need_padding_with_id_0(make, tiny_tokenizer):
    """Targets are padded with 0, and it has no loss."""
    tiny_tokenizer.pad_id = 3
    with refused("`objective=spans` needs .* id 0 is padding"):
        make("instances", objective="spans", sentence_objective="none")
    make("instances", objective="plm", sentence_objective="none")


@pytest.fixture
def markers(tmp_path):
    return lambda text: writing.markers(tmp_path, text)


def test_markers_are_pieces_and_the_longest_is_first(
    make, markers, tiny_tokenizer
):
    found = make(**markers("we\tso we\nwe all say so\n")).markers
    texts = {"we all say so": 1, "so we": 0, "we": 0}
    expected = {tuple(tiny_tokenizer.encode(t)): n for t, n in texts.items()}
    assert list(found.items()) == list(expected.items())


def test_markers_of_two_classes_are_refused(make, markers):
    with refused(
        r"markers.txt` has 'We', whose pieces are .* of another class",
    ):
        make(**markers("we\nIt\tWe\n"))


def test_markers_must_occur(make, markers, tiny_tokenizer, monkeypatch):
    """In one file at least, not in the first sentence or alone in one."""
    given = markers("we\nso\n")
    recipe, drawer = recipes.make(**given), make(**given)
    monkeypatch.setattr(tfrecord, "read_records", lambda path: [path])

    def check(*texts):
        rows = list(map(tiny_tokenizer.encode, texts))
        flags = [[marks.SENTENCE] + [marks.WORD] * len(r[1:]) for r in rows]
        passage = {"tokens": sum(rows, []), "marks": sum(flags, [0])[1:] + [0]}
        known = {"a": {"tokens": [], "marks": []}, "b": passage}
        monkeypatch.setattr(examples, "decode", known.get)
        pretraining_drawer.check_markers(recipe, drawer, ["a", "b"], "i")

    check("it", "we say")
    for texts in (["we say"], ["it", "we"]):
        with refused("nothing in .* 1,000 pass"):
            check(*texts)


@pytest.mark.parametrize("task", ["nsp", "distance", "dialogue", "sop"])
def test_tasks_about_two_documents_need_two(make, monkeypatch, task):
    """In all files together."""
    monkeypatch.setattr(tfrecord, "read_records", lambda path: [path] * 2)
    monkeypatch.setattr(examples, "decode", lambda n: {"document": [int(n)]})
    drawer = make(sentence_objective=f"reordering,{task}")
    pretraining_drawer.check_documents(drawer, ["7", "8"], "i")
    needs_two = contextlib.nullcontext()
    if task != "sop":
        message = f"has {task}, which needs .* 1,000 passages of each file are"
        needs_two = refused(message)
    with needs_two:
        pretraining_drawer.check_documents(drawer, ["7", "7"], "i")


@pytest.mark.parametrize(
    ("task", "sentences", "message"),
    [
        ("sop", 1, "has sop, for passages of several sentences; .* have 1"),
        ("sop", 2, None),
        ("nsp", 1, "has nsp"),
        ("distance", 2, "has distance.* have 2 at most"),
        ("distance", 3, None),
        ("reordering", 2, None),
    ],
)
@pytest.mark.parametrize("objective", ["mlm", "plm"])
def test_a_task_needs_passages_of_some_sentences(
    make, monkeypatch, objective, task, sentences, message
):
    monkeypatch.setattr(tfrecord, "read_records", lambda path: [path])
    flags = ([marks.SENTENCE] + [marks.WORD] * 2) * sentences + [0, 0]
    passage = {"tokens": [9] * len(flags), "marks": flags}
    monkeypatch.setattr(examples, "decode", lambda _: passage)
    drawer = make(sentence_objective=task, objective=objective)
    context = contextlib.nullcontext()
    if message:
        context = refused(message)
    with context:
        pretraining_drawer.check_sentences(drawer, ["a"], "input_file")


def test_reordering_of_one_sentence_has_one_label(make, monkeypatch, caplog):
    monkeypatch.setattr(tfrecord, "read_records", lambda path: [path])
    passage = {"tokens": [9, 9], "marks": [marks.SENTENCE, 0]}
    monkeypatch.setattr(examples, "decode", lambda _: passage)
    drawer = make(sentence_objective="reordering")
    pretraining_drawer.check_sentences(drawer, ["a"], "input_file")
    assert "has reordering, for passages of several" in caplog.text


def test_passages_with_special_ids_are_refused(
    make, monkeypatch, tiny_tokenizer
):
    monkeypatch.setattr(tfrecord, "read_records", lambda path: [path])
    passage = {"marks": [marks.SENTENCE, marks.SENTENCE]}
    monkeypatch.setattr(examples, "decode", lambda _: passage)
    for id_ in (tiny_tokenizer.cls_id, tiny_tokenizer.mask_id):
        passage["tokens"] = [9, id_]
        with refused(r"with \[CLS\] or \[MASK"):
            pretraining_drawer.check_sentences(make(), ["a"], "input_file")
    passage["tokens"] = [9, tiny_tokenizer.sep_id]  # Between two documents.
    pretraining_drawer.check_sentences(make(), ["a"], "input_file")


def test_stages_of_tasks_and_masks_are_those_of_the_recipe(make):
    tasks, levels = "1:5,1/2", "basic:7,phrase"
    given = {"task_stages": tasks, "mask_levels": levels}
    found = make(sentence_objective="sop,distance", **given)
    assert found.task_stages == stages.parse(tasks)
    assert found.mask_stages == stages.parse(levels)
    assert found.tasks == ("sop", "distance") and found.num_segments == 2


@pytest.mark.parametrize(
    ("tasks", "rows", "each"),
    [("sop,distance", 4, 2), ("nsp,distance,reordering", 9, 3)],
)
def test_tasks_share_the_rows_of_segments(make, tasks, rows, each):
    given = {"sentence_objective": tasks, "num_segments": rows}
    assert make(**given).num_segments == rows
    found = make(**given, task_embeddings=True)
    assert found.task_embeddings and found.num_segments == each


@pytest.mark.parametrize(
    ("tasks", "rows", "needed"),
    [
        ("sop", 4, 4),
        ("none", 2, 4),
        ("sop,distance", 2, 4),
        ("sop,distance", 5, 4),
        ("nsp,distance,reordering", 2, 6),
    ],
)
def test_too_few_rows_for_the_tasks_are_refused(make, tasks, rows, needed):
    with refused(
        f"`task_embeddings=True` has {rows} rows of .*size={needed}, or",
    ):
        make(sentence_objective=tasks, num_segments=rows, task_embeddings=True)
