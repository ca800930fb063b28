import io
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import sysconfig

import pytest

from albert_tf.common import options
from albert_tf.data import layouts, manifests
from albert_tf.text import tokenization
from data_prep import create_pretraining_data
from data_prep.inspection import record_statistics
from data_prep.writer import corpus, instances, token_blocks
from tests.conftest import changed, python, refused
from tests.data_prep import writing

ROOT = pathlib.Path(create_pretraining_data.__file__).parents[1]


@pytest.fixture
def chinese(base, tmp_path):
    """Options that work, of a Chinese text and a WordPiece vocabulary."""
    text = "今天下雨, we stayed at 家。\n明天見！unwanted\n雨天\n\n" * 5
    (tmp_path / "chinese.txt").write_text(text, "utf-8")
    words = "今 天 下 雨 , we stay ##ed at 家 。 明 ！ un ##want".split()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (tmp_path / "vocab").write_text("\n".join(pieces), "utf-8")
    return changed(
        base,
        input_file=str(tmp_path / "chinese.txt"),
        spm_model_file=None,
        vocab_file=str(tmp_path / "vocab"),
    )


@pytest.mark.parametrize("permute", [False, True])
def test_records_are_well_formed(base, permute):
    arrays = writing.read_arrays(writing.run(base, do_permutation=permute))
    special = record_statistics.SpecialIds(2, 3, 4)
    counts = record_statistics.count(arrays, special)
    found = record_statistics.summarize(counts)
    assert found["examples"] > 50 and found["well_formed"] == 1.0
    assert found["unlabelled"] == 0 and 0.3 < found["label_1"] < 0.7


def test_wordpiece_records(chinese, tmp_path):
    arrays = writing.read_arrays(writing.run(chinese))
    tokenizer = tokenization.load(chinese.vocabulary)
    manifest = manifests.find(chinese.output_file)
    assert manifest.vocab_size == tokenizer.vocab_size == 20
    assert manifest.vocab_sha256 == tokenizer.fingerprint
    assert manifest.options["vocab_file"] == chinese.vocabulary.path
    lines = (tmp_path / "chinese.txt").read_text().splitlines()
    sentences = [tokenizer.encode(line) for line in lines]
    known = {id_ for ids in sentences for id_ in ids} | {2, 3}
    assert len(arrays["input_ids"]) >= 15
    for i, ids in enumerate(writing.restore(arrays)):
        ids = ids[: arrays["input_mask"][i].sum()]
        assert set(ids) <= known
        pieces = tokenizer.ids_to_pieces(ids)
        boundary = arrays["token_boundary"][i][: len(ids)].tolist()
        assert boundary == [int(not p.startswith("##")) for p in pieces]


def test_settings_of_the_tokenizer_arrive(base, undescribed_vocab, monkeypatch):
    base = changed(base, spm_model_file=undescribed_vocab)
    seen = []
    original = tokenization.load

    def load(*arguments, **settings):
        seen.append(original(*arguments, **settings))
        return seen[-1]

    monkeypatch.setattr(tokenization, "load", load)
    changes = {
        "do_lower_case": False,
        "keep_accents": True,
        "strip_spurious_marker": True,
    }
    writing.run(base, **changes)
    assert seen[0].settings == changes
    manifest = manifests.find(base.output_file)
    assert manifest is not None
    assert {name: manifest.options[name] for name in changes} == changes
    with refused("--keep_accents was True"):
        writing.run(base, **{**changes, "keep_accents": False})


RANDOM = {"single_segment_policy": "random", "drop_duplicates": True}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sentence_objective": "nsp", **RANDOM},
        {"sentence_objective": "none", **RANDOM},
    ],
)
def test_bytes_do_not_depend_on_workers_and_sizes(
    base, tmp_path, request, changes
):
    """Those of another seed are others."""
    whole = writing.in_folder(base, tmp_path / "whole", **changes)
    request.getfixturevalue("many_pieces")
    other = writing.in_folder(
        base, tmp_path / "other", random_seed=2, **changes
    )
    assert all(whole[name] != other[name] for name in whole)
    several = {**changes, "num_workers": 2}
    assert writing.in_folder(base, tmp_path / "two", **several) == whole


def test_units_are_some_passes_over_a_block_or_over_several(monkeypatch):
    def plan(tokens, passes):
        units = create_pretraining_data.plan_units(tokens, passes)
        assert [unit.number for unit in units] == [*range(len(units))]
        return [(unit.blocks, unit.passes) for unit in units]

    monkeypatch.setattr(create_pretraining_data, "_UNIT_TOKENS", (20, 20))
    assert plan([10, 0, 30], 5) == [
        (range(1), range(2)),
        (range(1), range(2, 4)),
        (range(1), range(4, 5)),
        (range(1, 2), range(5)),
        *((range(2, 3), range(i, i + 1)) for i in range(5)),
    ]
    # Of 90 tokens in two passes, at most 5 units have 36 or more.
    monkeypatch.setattr(create_pretraining_data, "_MOST_UNITS", 5)
    assert plan([9, 9, 1, 8, 9, 9, 40, 5], 2) == [
        (range(2), range(2)),
        (range(2, 5), range(2)),
        (range(5, 6), range(2)),
        (range(6, 7), range(1)),
        (range(6, 7), range(1, 2)),
        (range(7, 8), range(2)),
    ]
    assert len(plan([3] * 1000, 3)) == 5


def test_bytes_do_not_depend_on_the_most_units_and_parts(
    base, tmp_path, monkeypatch, many_pieces
):
    whole = writing.in_folder(base, tmp_path / "many")
    monkeypatch.setattr(create_pretraining_data, "_MOST_UNITS", 4)
    monkeypatch.setattr(create_pretraining_data, "_MOST_PARTS", 3)
    planned = []
    original = create_pretraining_data.instances.count_keys

    def count_keys(prefix, bits):
        planned.append(bits)
        return original(prefix, bits)

    monkeypatch.setattr(
        create_pretraining_data.instances, "count_keys", count_keys
    )
    assert writing.in_folder(base, tmp_path / "few") == whole
    assert 1 < len(planned) <= 8 and set(planned) == {2}


STEPS = [
    (token_blocks, "save"),
    (instances, "save"),
    (create_pretraining_data.assemble.Assembler, "encode"),
    (create_pretraining_data.work_folder.WorkFolder, "write"),
    (create_pretraining_data.record_manifest, "write"),
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("after", [0, 4])
@pytest.mark.usefixtures("many_pieces")
def test_killed_run_goes_on_to_the_same_bytes(
    base, tmp_path, monkeypatch, step, after
):
    owner, name = step
    whole = writing.in_folder(base, tmp_path / "whole")
    (tmp_path / "killed").mkdir()
    original, calls = getattr(owner, name), itertools.count()

    def die(*arguments):
        if next(calls) == after:
            raise writing.Killed
        return original(*arguments)

    monkeypatch.setattr(owner, name, die)
    output = ",".join(
        str(tmp_path / "killed" / f"{i}.tfrecord") for i in range(3)
    )
    try:
        writing.run(base, output_file=output)
    except writing.Killed:
        for path in (tmp_path / "killed").glob("*.tfrecord"):
            assert path.read_bytes() == whole[path.name]
        finished = {
            path
            for path in (tmp_path / "killed").rglob("block-*.npy")
            if (path.parent / f"{path.stem}.json").exists()
        }
        monkeypatch.setattr(owner, name, original)
        monkeypatch.setattr(
            token_blocks, "save", not_again(finished, token_blocks.save)
        )
        writing.run(base, output_file=output)
    files = writing.content(tmp_path / "killed")
    del files["0.tfrecord.manifest.json"]
    assert files == whole


@pytest.mark.parametrize("step", [STEPS[0], STEPS[1], STEPS[2], STEPS[4]])
@pytest.mark.parametrize("name", ["a.txt", "b.txt"])
@pytest.mark.usefixtures("many_pieces")
def test_killed_run_reads_what_was_changed_with_equal_size_and_time(
    base, tmp_path, monkeypatch, step, name
):
    """Also where a later document was dropped as a copy of a changed one."""
    path, changes = tmp_path / name, {"drop_duplicates": True}
    text = (tmp_path / "a.txt").read_text()
    (tmp_path / "c.txt").write_text(text[text.index("\n\n") :])
    original, calls = getattr(*step), itertools.count()

    def die(*arguments):
        if next(calls) == 4 * (step[1] == "save"):
            raise writing.Killed
        return original(*arguments)

    with monkeypatch.context() as patch, pytest.raises(writing.Killed):
        patch.setattr(*step, die)
        writing.run(base, **changes)
    before, lines = path.stat(), path.read_text().splitlines(True)
    place = next(i for i in range(20, 99) if " " in lines[i])
    first, rest = lines[place].split(" ", 1)
    lines[place] = f"{'x' * len(first)} {rest}"
    path.write_text("".join(lines))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    writing.run(base, **changes)
    found = manifests.find(base.output_file)
    output = str(tmp_path / "new")
    writing.run(base, output_file=output, **changes)
    expected = manifests.find(output)
    assert found.shard_sha256 == expected.shard_sha256
    assert found.inputs == expected.inputs
    assert found.summary == expected.summary


def not_again(finished, save):
    def wrapped(block, path):
        assert pathlib.Path(path) not in finished
        return save(block, path)

    return wrapped


# The writer. A worker that has saved a block sends its parent a signal.
DISTURBED = """
import os, pathlib, runpy
from data_prep.writer import token_blocks

save = token_blocks.save

def save_and_signal(*given):
    written, parent = save(*given), os.getppid()
    task = pathlib.Path(f"/proc/{parent}/task/{parent}/children")
    print(task.read_text(), flush=True)
    os.kill(parent, %d)
    return written

token_blocks.save = save_and_signal
runpy.run_module(
    "data_prep.create_pretraining_data", run_name="__main__", alter_sys=True
)
"""


@pytest.mark.parametrize(
    "number, status",
    [(signal.SIGKILL, -9), (signal.SIGTERM, 42), (signal.SIGINT, 130)],
)
def test_workers_end_with_their_parent(base, tmp_path, number, status):
    """The signal reaches the parent alone; the next run finds all still."""
    writing.write_corpus(tmp_path / "a.txt", 1, 600)
    ended = changed(base, output_file=str(tmp_path / "ended"), num_workers=2)
    given = options.to_dict(ended).items()
    flags = [f"--{name}={value}" for name, value in given if value is not None]
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", DISTURBED % number, *flags],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    # Workers share its output, which ends with the last of them.
    output, _ = process.communicate(timeout=300)
    assert process.returncode == status
    assert len(output.splitlines()[0].split()) == 2
    assert "Traceback" not in (tmp_path / "log").read_text()
    writing.run(ended)
    writing.run(base)
    assert (tmp_path / "ended").read_bytes() == (
        pathlib.Path(base.output_file).read_bytes()
    )


@pytest.fixture
def pipe(tmp_path, monkeypatch):
    """Gives the content of a file to standard input."""

    def fill(name):
        stream = io.BytesIO((tmp_path / name).read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))

    return fill


@pytest.mark.parametrize("then", ["-", "b.txt"])
def test_standard_input_is_read_anew(base, tmp_path, pipe, then, monkeypatch):
    """Work of a pipe stands in the way of neither a pipe nor a file."""
    monkeypatch.chdir(tmp_path)
    pipe("a.txt")
    other = {"input_file": "-", "dupe_factor": 2}
    writing.interrupt(base, monkeypatch, instances, "save", **other)
    pipe("b.txt")
    writing.run(base, input_file=then)
    writing.run(base, input_file="b.txt", output_file="x")
    assert (tmp_path / "x").read_bytes() == (
        pathlib.Path(base.output_file).read_bytes()
    )


def test_a_pipe_does_not_replace_the_work_of_files(base, pipe, monkeypatch):
    writing.interrupt(base, monkeypatch, instances, "save")
    folder = f"{base.output_file}.work"
    before = writing.read_folder(folder)
    pipe("a.txt")
    message = (
        "(?s)unfinished work of another job:.*- is new\nRepeat those options"
    )
    with refused(message):
        writing.run(base, input_file="-")
    assert before.items() <= writing.read_folder(folder).items()


def test_records_for_masking_in_training(base):
    import tensorflow as tf

    writing.run(base, masking_time="training")
    manifest = manifests.find(base.output_file)
    assert not manifest.has_masks
    assert "share_of_most_frequent_label" not in manifest.summary
    record = next(iter(tf.data.TFRecordDataset(base.output_file))).numpy()
    features = tf.train.Example.FromString(record).features.feature
    assert sorted(features) == [
        *("input_ids", "input_mask", "next_sentence_labels"),
        *("segment_ids", "token_boundary"),
    ]


def test_single_sentences_that_cannot_be_split_have_no_label(chinese, tmp_path):
    path = tmp_path / "titles.txt"
    path.write_text("天下。\n\n雨\n\n" * 20, "utf-8")
    arrays = writing.read_arrays(writing.run(chinese, input_file=str(path)))
    assert (arrays["next_sentence_labels"] == layouts.NO_LABEL).all()
    assert not arrays["segment_ids"].any()
    assert arrays["masked_lm_weights"].sum(1).all()
    found = manifests.find(chinese.output_file)
    assert found.summary["share_without_label"] == 1.0
    # Nothing is left to predict a word from that stands alone.
    assert found.corpus["unused_chunks"] == 20 * chinese.dupe_factor


def test_input_without_text_is_named_and_nothing_is_written(base, tmp_path):
    for name, text in (("a.txt", ""), ("b.txt", "\n \n\t\n")):
        (tmp_path / name).write_text(text)
    with refused(r"no usable document: 2 file"):
        writing.run(base)
    assert not pathlib.Path(base.output_file).exists()


def test_text_without_instances_says_why(base, tmp_path):
    (tmp_path / "c").write_text("it\n\nwe\n")
    with refused("only 0 inst.*unused documents: 6; .*sentences"):
        writing.run(base, input_file=str(tmp_path / "c"))


def test_input_that_may_not_be_read_is_named_at_once(base, monkeypatch):
    monkeypatch.setattr(corpus.os, "access", lambda *_: False)
    with refused("--input_file=.*not be read"):
        writing.run(base)
    assert not os.path.exists(os.path.dirname(base.output_file))


def test_script_runs_by_its_path(base, tmp_path):
    packages = sysconfig.get_path("purelib")
    result = python(
        "-S",  # Without the path of this folder, which `make setup` adds.
        ROOT / "data_prep" / "create_pretraining_data.py",
        f"--input_file={base.text.input_file}",
        f"--output_file={base.output_file}",
        f"--spm_model_file={base.vocabulary.path}",
        *("--max_seq_length=32", "--dupe_factor=1", "--nodo_permutation"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": packages},
    )
    assert "written: " in result.stderr
    assert manifests.find(base.output_file).max_seq_length == 32


def test_the_command_loads_nothing_slow_that_it_does_not_use(base):
    code = (
        "import runpy, sys\n"
        "try:\n"
        "    runpy.run_module('data_prep.create_pretraining_data',"
        " run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "print(*sys.modules)\n"
    )
    options_given = [
        f"--input_file={base.text.input_file}",
        f"--output_file={base.output_file}",
        f"--spm_model_file={base.vocabulary.path}",
        # Other processes cannot import the functions of `python -c`.
        "--num_workers=1",
    ]
    loaded = set(python("-c", code, *options_given).stdout.split())
    assert "data_prep.writer.record_manifest" in loaded
    slow = {"tensorflow", "tqdm", "google.protobuf", "importlib.metadata"}
    assert not slow & loaded
