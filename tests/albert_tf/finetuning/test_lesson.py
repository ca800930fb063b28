"""What a student learns from a teacher: outputs that are asked for once."""

import shutil
import types

import numpy as np
import pytest

from albert_tf.common import errors
from albert_tf.data import examples as messages_of
from albert_tf.data import tfrecord
from albert_tf.data.layouts import Feature
from albert_tf.finetuning import (
    finetuning_options,
    lesson,
    saved_outputs,
)
from albert_tf.model.losses import label_objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding import model as embedding
from tests.conftest import tiny_config

FACTS = {"task": "plain", "teacher": {"weights_sha256": "1"}}
EXAMPLES = list(range(25))


class Asked:
    """A teacher whose outputs follow from the examples; it may be stopped."""

    def __init__(self, most=99):
        self.task = types.SimpleNamespace(remarks=None)
        self.calls = []
        self._most = most

    def outputs(self, examples):
        if len(self.calls) == self._most:
            raise KeyboardInterrupt
        self.calls.append(len(examples))
        numbers = np.array(examples, np.float32)
        return {
            "logits": np.stack([numbers, -numbers], 1),
            "more": numbers,
            "of_words": np.ones([len(examples), 3, 2], np.float32),
        }


@pytest.fixture(autouse=True)
def _parts(monkeypatch):
    monkeypatch.setattr(saved_outputs, "_PART", 10)


def ask(asked, folder, facts=FACTS):
    return lesson.ask(asked, facts, EXAMPLES, str(folder))


def test_asking_goes_on_where_it_was_stopped_and_happens_once(tmp_path):
    whole = ask(Asked(), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        ask(Asked(2), tmp_path)
    asked = Asked()
    ask(asked, tmp_path)
    again = ask(asked, tmp_path)
    assert asked.calls == [5]
    assert again.facts == FACTS
    one, other = (
        {p.name: p.read_bytes() for p in folder.glob("teacher-plain-*/*")}
        for folder in (tmp_path, tmp_path / "whole")
    )
    assert len(one) == 4
    assert one == other
    assert whole.names == again.names == ["logits", "more", "of_words"]
    ask(asked, tmp_path, {**FACTS, "teacher": {}})
    assert asked.calls == [5, 10, 10, 5]


def test_outputs_are_joined_to_records_in_order(tmp_path):
    layout = (Feature("a", (2,), "int64"),)
    values = {"a": np.arange(50).reshape(25, 2)}
    framed = tfrecord.frame_batch(tfrecord.encode_batch(layout, values))
    stored = ask(Asked(), tmp_path)
    assert stored.layout == (
        Feature("teacher_logits", (2,), "float32"),
        Feature("teacher_more", (), "float32"),
        Feature("teacher_of_words", (3, 2), "float32"),
    )
    joined = [r for b in stored.joined([framed[:7], framed[7:]]) for r in b]
    records = messages_of.decode_batch(
        layout + stored.layout, [tfrecord.unframe(r) for r in joined]
    )
    np.testing.assert_array_equal(records["a"], values["a"])
    np.testing.assert_array_equal(records["teacher_more"], EXAMPLES)
    np.testing.assert_array_equal(records["teacher_logits"][:, 1], -np.r_[:25])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("00001.npz", b"other"),
        ("00001.npz", None),
        ("teacher_outputs.json", b"{}"),
    ],
)
def test_damage_is_refused(tmp_path, name, damage):
    ask(Asked(), tmp_path)
    (folder,) = tmp_path.glob("teacher-*")
    assert saved_outputs.is_stored(str(folder))
    (folder / name).unlink()
    if damage:
        (folder / name).write_bytes(damage)
    with pytest.raises(errors.UserError, match=r"damaged|missing"):
        stored = saved_outputs.StoredOutputs(str(folder))
        list(stored.joined([[b"\0" * 16] * 25]))


def test_outputs_that_are_not_finite_are_refused(tmp_path):
    asked = Asked()
    asked.outputs = lambda examples: {"logits": np.full([10, 2], np.nan)}
    with pytest.raises(errors.UserError, match=r"'logits'.* not finite"):
        ask(asked, tmp_path)


class Plain:
    """As much of a task as the facts need."""

    name = "plain"
    outputs_are_positions = False

    def __init__(self, vocabulary="v", widths=None):
        self.output_widths = widths or {}
        self.settings = {"max_seq_length": 8}
        self.tokenizer = types.SimpleNamespace(
            fingerprint=vocabulary, settings={}
        )


def test_examples_without_a_repr_are_told_by_their_content():
    class Bare:
        def __init__(self, text):
            self.text = text

    class Slotted:
        __slots__ = ("text",)
        __init__ = Bare.__init__

    def facts(kind, *texts):
        examples = list(map(kind, texts))
        asked = types.SimpleNamespace(task=Plain(), facts={})
        return lesson.facts_of(asked, Plain(), examples)

    for kind in Bare, Slotted:
        first = facts(kind, "a", "b")
        assert first == facts(kind, "a", "b") != facts(kind, "a", "c")


def test_outputs_for_tokens_need_the_same_vocabulary(tmp_path):
    def facts(task, its):
        asked = types.SimpleNamespace(task=its, facts={"weights": 1})
        return lesson.facts_of(asked, task, EXAMPLES)

    unlike = facts(Plain(), Plain("other"))
    assert (unlike["records"], unlike["teacher"]) == (None, {"weights": 1})
    positions = Plain()
    positions.outputs_are_positions = True
    assert facts(positions, positions)["records"]["vocab_sha256"] == "v"
    widths = {"start_logits": 8}
    assert facts(Plain("v", widths), Plain("v", widths))["records"]
    with pytest.raises(errors.UserError, match="belong to single tokens"):
        facts(Plain("v", widths), Plain("other", widths))

    ask(Asked(), tmp_path, facts(Plain(), Plain()))
    (folder,) = tmp_path.glob("teacher-*")
    lesson.open_stored(str(folder), Plain(), EXAMPLES)
    with pytest.raises(errors.UserError, match="in examples_sha256"):
        lesson.open_stored(str(folder), Plain(), EXAMPLES[::-1])


def test_without_a_teacher_there_is_no_lesson():
    assert lesson.soft_labels(finetuning_options.TeacherOptions()) is None
    with pytest.raises(errors.UserError, match="only used with `teacher`"):
        finetuning_options.TeacherOptions(temperature=2.0)


@pytest.mark.parametrize(
    ("given", "weight"), [(None, 0.5), (0.0, 0), (0.8, 0.8)]
)
def test_labels_and_teacher_share_the_loss(given, weight):
    options = finetuning_options.TeacherOptions(
        teacher="x", teacher_weight=given
    )
    hard = label_objectives.CLASSIFICATION
    found = lesson.soft_labels(options).objective(hard, ["logits"])
    assert found.losses == {
        "classification_loss": 1 - weight,
        "teacher_loss": weight,
    }


@pytest.mark.parametrize("size", [0, 5])
def test_width_of_a_checkpoint(world, tmp_path, size):
    prefix = tmp_path / "encoder" / "model.ckpt"
    model = embedding.AlbertEmbedder(
        AlbertModel(tiny_config()), projection_size=size
    )
    model.save_weights(str(prefix))
    with pytest.raises(errors.UserError, match="no config file beside it"):
        lesson.vectors_of(str(prefix))
    shutil.copy(world.config, prefix.parent / "albert_config.json")
    assert lesson.vectors_of(str(prefix)) == lesson.Vectors(
        size or 16, "mean", size
    )
