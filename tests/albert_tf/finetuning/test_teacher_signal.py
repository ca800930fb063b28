"""What a student learns from a teacher: outputs that are asked for once."""

import shutil
import types

import numpy as np
import pytest

from albert_tf.data import examples as messages_of
from albert_tf.data import tfrecord
from albert_tf.data.layouts import Feature
from albert_tf.finetuning import (
    finetuning_options,
    saved_outputs,
    teacher_signal,
)
from albert_tf.model.losses import label_objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding import model as embedding
from tests.conftest import refused, tiny_config

FACTS = {"task": "plain", "teacher": {"weights_sha256": "1"}}
EXAMPLES = list(range(25))


class Asked:
    """A teacher whose outputs follow from the examples; it may be stopped."""

    def __init__(self, most=99):
        self.task = types.SimpleNamespace(
            remarks=None, for_teacher=lambda examples: examples
        )
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
    monkeypatch.setattr(saved_outputs, "PART", 10)


def ask(asked, folder, facts=FACTS):
    return teacher_signal.load_or_compute(asked, facts, EXAMPLES, str(folder))


def test_asking_goes_on_where_it_was_stopped_and_happens_once(tmp_path):
    whole = ask(Asked(), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        ask(Asked(2), tmp_path)
    asked = Asked()
    ask(asked, tmp_path)
    again = ask(asked, tmp_path)
    assert asked.calls == [5]
    assert again.key == FACTS
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
    joined = [
        r for b in stored.add_to_records([framed[:7], framed[7:]]) for r in b
    ]
    records = messages_of.decode_batch(
        layout + stored.layout, [tfrecord.unframe(r) for r in joined]
    )
    np.testing.assert_array_equal(records["a"], values["a"])
    np.testing.assert_array_equal(records["teacher_more"], EXAMPLES)
    np.testing.assert_array_equal(records["teacher_logits"][:, 1], -np.r_[:25])


def test_a_teacher_reads_its_text(tmp_path):
    asked = Asked()
    asked.task.for_teacher = lambda examples: [-one for one in examples]
    (part, *_) = ask(asked, tmp_path).parts()
    np.testing.assert_array_equal(part["more"], -np.arange(10))


def rewritten(**changed):
    """Change arrays of a part, which stays a whole file."""

    def damage(part):
        with np.load(part) as arrays:
            content = {name: arrays[name] for name in arrays.files}
        changes = {k: change(content[k]) for k, change in changed.items()}
        np.savez(part, **{**content, **changes})

    return damage


def exchanged(part):
    other = part.parent / "00000.npz"
    content = other.read_bytes()
    other.write_bytes(part.read_bytes())
    part.write_bytes(content)


def of_another(part):
    """Put a whole part of other examples there."""
    stored = {**FACTS, "task": "other"}
    teacher_signal.load_or_compute(
        Asked(), stored, EXAMPLES[::-1], str(part.parents[1])
    )
    (other,) = part.parents[1].glob("teacher-other-*/00001.npz")
    part.write_bytes(other.read_bytes())


def bare(*arrays):
    return lambda part: np.savez(part, *arrays)


# Of the second of three parts, with 10 examples each.
DAMAGES = {
    "missing": lambda part: part.unlink(),
    "empty": lambda part: part.write_bytes(b""),
    "zeros": lambda part: part.write_bytes(bytes(part.stat().st_size)),
    "text": lambda part: part.write_bytes(b"{}"),
    "cut": lambda part: part.write_bytes(part.read_bytes()[:-9]),
    "one more byte in front": lambda part: part.write_bytes(
        b"P" + part.read_bytes()
    ),
    "no array": bare(),
    "two arrays": bare(np.ones(10), np.ones(10)),
    "without its digest": bare(np.ones([10, 2], np.float32)),
    "too many rows": rewritten(more=lambda x: np.resize(x, 11)),
    "too few rows": rewritten(more=lambda x: x[:9]),
    "another axis": rewritten(logits=lambda x: x[None]),
    "another type": rewritten(logits=lambda x: x.astype(np.float64)),
    "numbers that are 0": rewritten(logits=np.zeros_like),
    "NaN": rewritten(more=lambda x: x * np.nan),
    "another order": rewritten(logits=lambda x: x[::-1]),
    "another digest": rewritten(facts_json=lambda x: np.array("0" * 64)),
    "another part": exchanged,
    "of other examples": of_another,
}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_stopped", [True, False])
def test_damaged_parts_are_asked_for_anew(tmp_path, damage, is_stopped):
    """Whether or not the manifest says that all parts are there."""
    ask(Asked(), tmp_path)
    (folder,) = tmp_path.glob("teacher-plain-*")
    whole = contents(folder)
    if is_stopped:
        (folder / "teacher_outputs.json").unlink()
    DAMAGES[damage](folder / "00001.npz")
    if not is_stopped:
        with refused("missing or damaged"):
            stored = saved_outputs.TeacherOutputs(str(folder))
            list(stored.add_to_records([[b"\0" * 16] * 25]))
    asked = Asked()
    ask(asked, tmp_path)
    assert asked.calls == [10] * (2 if damage == "another part" else 1)
    assert contents(folder) == whole


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b'{"facts": {}, "parts": 0}',
        b'{"facts": {}, "parts": true}',
        b'{"facts": {"task": "plain"}, "parts": 3}',
        b'{"facts": {}, "sha256": ["0"]}',
    ],
)
def test_a_damaged_manifest_is_refused_or_written_anew(tmp_path, content):
    ask(Asked(), tmp_path)
    (manifest,) = tmp_path.glob("teacher-*/teacher_outputs.json")
    whole = manifest.read_bytes()
    manifest.write_bytes(content)
    with refused(r"damaged|not JSON|not a JSON"):
        saved_outputs.TeacherOutputs(str(manifest.parent))
    asked = Asked()
    ask(asked, tmp_path)
    assert (asked.calls, manifest.read_bytes()) == ([], whole)


def test_a_whole_folder_is_not_written_again(tmp_path, monkeypatch):
    """It may be one for reading only."""
    ask(Asked(), tmp_path)
    for name in ("write_text", "write_together"):
        monkeypatch.setattr(saved_outputs.files, name, None)
    ask(Asked(0), tmp_path)


def test_outputs_that_are_not_finite_are_refused(tmp_path):
    asked = Asked()
    asked.outputs = lambda examples: {"logits": np.full([10, 2], np.nan)}
    with refused(r"'logits'.* not finite"):
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
        asked = types.SimpleNamespace(task=Plain(), identity={})
        return teacher_signal.outputs_key(asked, Plain(), examples)

    for kind in Bare, Slotted:
        first = facts(kind, "a", "b")
        assert first == facts(kind, "a", "b") != facts(kind, "a", "c")


def test_outputs_for_tokens_need_the_same_vocabulary(tmp_path):
    def facts(task, its):
        asked = types.SimpleNamespace(task=its, identity={"weights": 1})
        return teacher_signal.outputs_key(asked, task, EXAMPLES)

    unlike = facts(Plain(), Plain("other"))
    assert (unlike["records"], unlike["teacher"]) == (None, {"weights": 1})
    positions = Plain()
    positions.outputs_are_positions = True
    assert facts(positions, positions)["records"]["vocab_sha256"] == "v"
    widths = {"start_logits": 8}
    assert facts(Plain("v", widths), Plain("v", widths))["records"]
    with refused("belong to single tokens"):
        facts(Plain("v", widths), Plain("other", widths))

    ask(Asked(), tmp_path, facts(Plain(), Plain()))
    (folder,) = tmp_path.glob("teacher-*")
    teacher_signal.open_stored(str(folder), Plain(), EXAMPLES)
    with refused("in examples_sha256"):
        teacher_signal.open_stored(str(folder), Plain(), EXAMPLES[::-1])


def test_without_a_teacher_there_is_no_signal():
    assert (
        teacher_signal.soft_labels(finetuning_options.TeacherOptions()) is None
    )
    with refused("only used with `teacher`"):
        finetuning_options.TeacherOptions(temperature=2.0)


@pytest.mark.parametrize(
    ("given", "weight"), [(None, 0.5), (0.0, 0), (0.8, 0.8)]
)
def test_labels_and_teacher_share_the_loss(given, weight):
    options = finetuning_options.TeacherOptions(
        teacher="x", teacher_weight=given
    )
    hard = label_objectives.CLASSIFICATION
    found = teacher_signal.soft_labels(options).objective(hard, ["logits"])
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
    with refused("no config file beside it"):
        teacher_signal.describe_vectors(str(prefix))
    shutil.copy(world.config, prefix.parent / "albert_config.json")
    assert teacher_signal.describe_vectors(
        str(prefix)
    ) == teacher_signal.VectorInfo(size or 16, "mean", size)
