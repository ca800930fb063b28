import dataclasses
import errno
import gzip
import hashlib
import io
import itertools
import json
import logging
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from albert_tf import (
    errors,
    files,
    folder_lock,
    masking,
    options,
    records,
    tokenization,
)
from data_prep import (
    corpus,
    create_pretraining_data,
    instances,
    segment_pairs,
    token_blocks,
)
from tests.conftest import changed

ROOT = pathlib.Path(create_pretraining_data.__file__).parents[1]
WORDS = "it rains we stay at home and read old books by the fire".split()


def write_corpus(path, seed, num_documents=12):
    rng = random.Random(seed)
    with open(path, "w") as stream:
        for _ in range(num_documents):
            for _ in range(rng.randint(2, 10)):
                words = rng.choices(WORDS, k=rng.randint(3, 9))
                stream.write(" ".join(words) + " .\n")
            stream.write("\n")


@pytest.fixture
def base(tmp_path, tiny_vocab):
    """Options that work, of a folder with two text files."""
    write_corpus(tmp_path / "a.txt", 1)
    write_corpus(tmp_path / "b.txt", 2)
    return create_pretraining_data.CreatePretrainingDataOptions(
        text=corpus.CorpusOptions(str(tmp_path / "*.txt")),
        output_file=str(tmp_path / "out" / "a.tfrecord"),
        num_workers=1,
        vocabulary=tokenization.VocabularyOptions(tiny_vocab),
        dupe_factor=3,
        pairs=segment_pairs.PairOptions(max_seq_length=32),
        masks=masking.MaskingOptions(max_predictions_per_seq=5),
    )


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


def run(wanted, **changes):
    wanted = changed(wanted, **changes)
    create_pretraining_data.run(wanted)
    return wanted


def read_arrays(options):
    import tensorflow as tf

    layout = records.pretraining_layout(
        options.pairs.max_seq_length, options.masks.record_predictions
    )
    paths = options.output_file.split(",")
    batch = next(iter(tf.data.TFRecordDataset(paths).batch(100_000)))
    parsed = records.parse(layout, batch)
    return {name: value.numpy() for name, value in parsed.items()}


@pytest.mark.parametrize("permute", [False, True])
def test_records_are_well_formed(base, permute):
    options = run(base, do_permutation=permute)
    arrays = read_arrays(options)
    tokenizer = tokenization.Tokenizer(base.vocabulary.path, True)
    assert len(arrays["input_ids"]) > 50
    for i, ids in enumerate(arrays["input_ids"]):
        row = {name: values[i] for name, values in arrays.items()}
        length, weights = row["input_mask"].sum(), row["masked_lm_weights"]
        count = int(weights.sum())
        assert row["input_mask"].tolist() == [1] * length + [0] * (32 - length)
        assert weights.tolist() == [1.0] * count + [0.0] * (
            len(weights) - count
        )
        restored = ids.copy()
        positions = row["masked_lm_positions"][:count]
        restored[positions] = row["masked_lm_ids"][:count]
        assert not row["masked_lm_positions"][count:].any()
        assert not restored[length:].any()
        assert restored[0] == tokenizer.cls_id
        separators = (restored == tokenizer.sep_id).nonzero()[0]
        assert len(separators) == 2 and separators[1] == length - 1
        assert 1 < separators[0] < length - 2  # Neither segment is empty.
        in_first = separators[0] + 1
        assert row["segment_ids"].tolist() == (
            [0] * in_first + [1] * (length - in_first) + [0] * (32 - length)
        )
    assert set(arrays["next_sentence_labels"].ravel()) == {0, 1}


def test_wordpiece_records(chinese, tmp_path):
    arrays = read_arrays(run(chinese))
    tokenizer = tokenization.load(chinese.vocabulary)
    lines = (tmp_path / "chinese.txt").read_text().splitlines()
    sentences = [tokenizer.encode(line) for line in lines]
    known = {id_ for ids in sentences for id_ in ids} | {2, 3}
    assert len(arrays["input_ids"]) >= 15
    for i, ids in enumerate(arrays["input_ids"]):
        count = int(arrays["masked_lm_weights"][i].sum())
        positions = arrays["masked_lm_positions"][i][:count]
        ids = ids.copy()
        ids[positions] = arrays["masked_lm_ids"][i][:count]
        ids = ids[: arrays["input_mask"][i].sum()]
        assert set(ids) <= known
        pieces = tokenizer.ids_to_pieces(ids)
        boundary = arrays["token_boundary"][i][: len(ids)].tolist()
        assert boundary == [int(not p.startswith("##")) for p in pieces]


def test_manifest_of_wordpiece_records(chinese):
    run(chinese)
    manifest = records.find_manifest(chinese.output_file)
    tokenizer = tokenization.load(chinese.vocabulary)
    assert manifest is not None
    assert manifest.vocab_size == tokenizer.vocab_size == 20
    assert manifest.vocab_sha256 == tokenizer.fingerprint
    assert manifest.options["vocab_file"] == chinese.vocabulary.path
    assert manifest.options["spm_model_file"] is None


def test_settings_of_the_tokenizer_arrive(base, tiny_vocab, monkeypatch):
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
    run(base, **changes)
    assert seen[0].settings == changes
    manifest = records.find_manifest(base.output_file)
    assert manifest is not None
    assert {name: manifest.options[name] for name in changes} == changes
    with pytest.raises(errors.UserError, match="--keep_accents was True"):
        run(base, **{**changes, "keep_accents": False})


def test_manifest_says_how_the_records_were_made(base, tiny_vocab):
    output = base.output_file + "," + base.output_file + ".2"
    options = run(base, output_file=output, do_permutation=True)
    manifest = records.find_manifest(base.output_file + ".2")
    assert manifest is not None
    assert manifest.shards == ("a.tfrecord", "a.tfrecord.2")
    arrays = read_arrays(options)
    assert manifest.num_examples == len(arrays["input_ids"])
    assert manifest.max_predictions_per_seq == 10
    assert manifest.random_seed == 12345
    assert manifest.options["ngram"] == 3
    tokenizer = tokenization.Tokenizer(tiny_vocab, True)
    expected = records.Expected(
        32, 10, tokenizer.vocab_size, tokenizer.fingerprint
    )
    paths = output.split(",")
    assert records.check_records(paths, expected) == [manifest]


def test_same_seed_same_bytes_and_another_seed_others(base, tmp_path):
    contents = []
    for name, seed in (("x", 1), ("y", 1), ("z", 2)):
        run(base, output_file=str(tmp_path / name), random_seed=seed)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_no_instance_spans_two_files(tmp_path, base):
    tokenizer = tokenization.Tokenizer(base.vocabulary.path, True)
    texts = {"a.txt": "it rains", "b.txt": "old books"}
    for name, text in texts.items():
        (tmp_path / name).write_text(f"{text}\n" * 6)
    options = run(
        base,
        max_seq_length=512,
        short_seq_prob=0.0,
        masked_lm_prob=0.0,
    )
    bodies = [
        [id_ for id_ in ids if id_ not in (0, 2, 3)]
        for ids in read_arrays(options)["input_ids"].tolist()
    ]
    wanted = [tokenizer.encode(text) * 6 for text in texts.values()]
    assert sorted(bodies) == sorted(wanted * 3)


# Whatever happens on the way, the bytes are the same.


def content(folder):
    return {
        path.name: path.read_bytes()
        for path in pathlib.Path(folder).iterdir()
        if path.suffix != ".md"
    }


@pytest.fixture
def small_rooms(monkeypatch):
    """Many blocks, units and parts, although there is little text."""
    for name, value in (
        ("_BLOCK_BYTES", (600, 600)),
        ("_UNIT_TOKENS", (300, 300)),
        ("_PART_POSITIONS", (32 * 9, 32 * 9)),
    ):
        monkeypatch.setattr(create_pretraining_data, name, value)


def in_folder(base, folder, **changes):
    folder.mkdir()
    output = ",".join(str(folder / f"{i}.tfrecord") for i in range(3))
    run(base, output_file=output, **changes)
    files = content(folder)
    # Its options differ.
    del files["0.tfrecord.manifest.json"]
    return files


def test_bytes_do_not_depend_on_workers_and_sizes(
    base, tmp_path, monkeypatch, request
):
    whole = in_folder(base, tmp_path / "whole")
    request.getfixturevalue("small_rooms")
    assert in_folder(base, tmp_path / "small") == whole
    assert in_folder(base, tmp_path / "two", num_workers=2) == whole
    assert in_folder(base, tmp_path / "three", num_workers=3) == whole


@pytest.mark.parametrize("policy", ["split", "random"])
@pytest.mark.parametrize("objective", ["sop", "nsp", "none"])
def test_random_segments_do_not_depend_on_blocks(
    base, tmp_path, request, policy, objective
):
    changes = {
        "sentence_objective": objective,
        "single_segment_policy": policy,
        "drop_duplicates": True,
    }
    whole = in_folder(base, tmp_path / "whole", **changes)
    request.getfixturevalue("small_rooms")
    changes["num_workers"] = 2
    assert in_folder(base, tmp_path / "small", **changes) == whole


class Killed(BaseException):
    """Stands for a signal that nobody can catch."""


ROOMS = [
    (token_blocks, "save"),
    (instances, "save"),
    (create_pretraining_data.assemble.Assembler, "encode"),
    (create_pretraining_data.work_folder.WorkFolder, "write"),
    (create_pretraining_data.data_card, "write"),
]


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("after", [0, 1, 4])
@pytest.mark.usefixtures("small_rooms")
def test_killed_run_goes_on_to_the_same_bytes(
    base, tmp_path, monkeypatch, room, after
):
    owner, name = room
    whole = in_folder(base, tmp_path / "whole")
    (tmp_path / "killed").mkdir()
    original, calls = getattr(owner, name), itertools.count()

    def die(*arguments):
        if next(calls) == after:
            raise Killed
        return original(*arguments)

    monkeypatch.setattr(owner, name, die)
    output = ",".join(
        str(tmp_path / "killed" / f"{i}.tfrecord") for i in range(3)
    )
    try:
        run(base, output_file=output)
    except Killed:
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
        run(base, output_file=output)
    files = content(tmp_path / "killed")
    del files["0.tfrecord.manifest.json"]
    assert files == whole


def not_again(finished, save):
    def wrapped(block, path):
        assert pathlib.Path(path) not in finished
        return save(block, path)

    return wrapped


# The writer, which a worker disturbs when it has saved something.
DISTURBED = """
import os, pathlib, runpy, signal, sys
from data_prep import instances, token_blocks

def disturb():
    parent = os.getppid()
    task = pathlib.Path(f"/proc/{parent}/task/{parent}/children")
    print(task.read_text(), flush=True)
    %s

def disturbed(save):
    def wrapped(*given):
        written = save(*given)
        disturb()
        return written
    return wrapped

%s.save = disturbed(%s.save)
runpy.run_module(
    "data_prep.create_pretraining_data", run_name="__main__", alter_sys=True
)
"""


def start_disturbed(room, what, flags, **how):
    """Start it; a worker that has saved a thing of the `room` does `what`."""
    return subprocess.Popen(
        [sys.executable, "-c", DISTURBED % (what, room, room), *flags],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        **how,
    )


def test_kill_9_of_the_whole_process(base, tmp_path):
    """A real signal, with worker processes, some way into the work."""
    write_corpus(tmp_path / "a.txt", 1, 3000)
    flags = [
        f"--input_file={base.text.input_file}",
        f"--spm_model_file={base.vocabulary.path}",
        *("--max_seq_length=32", "--dupe_factor=4", "--num_workers=2"),
        "--num_shards=4",
    ]
    command = [sys.executable, "-m", "data_prep.create_pretraining_data"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = subprocess.run(
        [*command, *flags, f"--output_file={whole}/x"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    flags.append(f"--output_file={killed}/x")
    process = start_disturbed(
        "instances",
        "os.killpg(0, signal.SIGKILL)",
        flags,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert list(killed.glob("*.work/unit-*"))
    done = subprocess.run(
        [*command, *flags], cwd=ROOT, capture_output=True, check=False
    )
    assert b"Going on with the work" in done.stderr
    for path in whole.glob("x-0*-of-00004"):
        assert (killed / path.name).read_bytes() == path.read_bytes()
    assert not list(killed.glob("*.work"))


def test_full_disk_keeps_finished_work_and_shows_no_half_file(
    base, tmp_path, monkeypatch, small_rooms
):
    whole = in_folder(base, tmp_path / "whole")
    original = create_pretraining_data.shards.os.fsync

    def fail(descriptor):
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if name.endswith("1.tfrecord.partial"):
            raise OSError(errno.ENOSPC, "No space left on device")
        original(descriptor)

    (tmp_path / "full").mkdir()
    output = ",".join(
        str(tmp_path / "full" / f"{i}.tfrecord") for i in range(3)
    )
    monkeypatch.setattr(create_pretraining_data.shards.os, "fsync", fail)
    with pytest.raises(OSError, match=r"No space left.*free.*/1.tfrecord'"):
        run(base, output_file=output)
    for path in (tmp_path / "full").glob("*.tfrecord"):
        assert path.read_bytes() == whole[path.name]
    monkeypatch.setattr(create_pretraining_data.shards.os, "fsync", original)
    run(base, output_file=output)
    files = content(tmp_path / "full")
    del files["0.tfrecord.manifest.json"]
    assert files == whole


def interrupt(options, monkeypatch, owner, name, **changes):
    """Run until a function is called, and end there as if killed."""

    def die(*_):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(owner, name, die)
        run(options, **changes)


def read_folder(path):
    return {p.name: p.read_bytes() for p in pathlib.Path(path).iterdir()}


def test_work_of_another_job_is_refused_and_kept(base, monkeypatch, tmp_path):
    interrupt(base, monkeypatch, instances, "save")
    place = base.output_file + ".work"
    work = read_folder(place)
    message = "--dupe_factor was 3, is now 4.*Repeat.*remove.*--overwrite"
    with pytest.raises(errors.UserError, match=message):
        run(base, dupe_factor=4)
    os.utime(tmp_path / "a.txt", (1, 1))
    with pytest.raises(errors.UserError, match="a.txt was changed"):
        run(base)
    after = read_folder(place)
    assert after.pop("lock") == work.pop("lock")
    assert after == work
    run(base, dupe_factor=4, overwrite=True)
    assert not os.path.exists(place)
    run(base, dupe_factor=4, output_file=str(tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == (
        pathlib.Path(base.output_file).read_bytes()
    )


def test_unfinished_output_of_other_options_is_explained(
    base, monkeypatch, small_rooms
):
    output = f"{base.output_file},{base.output_file}.2"
    module = create_pretraining_data.data_card
    interrupt(base, monkeypatch, module, "write", output_file=output)
    with pytest.raises(errors.UserError, match="--dupe_factor was 3, is now"):
        run(base, output_file=output, dupe_factor=4)


def test_work_serves_another_number_of_shards(base, monkeypatch, tmp_path):
    with pytest.raises(errors.UserError, match="names 10000 files"):
        run(base, num_shards=10000)
    built = []
    monkeypatch.setattr(instances, "save", lambda *given: built.append(given))
    run(base, num_shards=2)
    assert not built
    monkeypatch.undo()
    run(base, output_file=str(tmp_path / "x"), num_shards=2)
    for shard in range(2):
        name = f"-{shard:05d}-of-00002"
        assert (tmp_path / f"x{name}").read_bytes() == (
            pathlib.Path(f"{base.output_file}{name}").read_bytes()
        )


@pytest.mark.parametrize(
    "name", ["a.tfrecord.work", "a.tfrecord.work/job.json"]
)
def test_folder_of_somebody_else_is_refused(base, name):
    folder = pathlib.Path(base.output_file + ".work")
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("precious")
    if name.endswith("job.json"):
        (folder / "job.json").write_text('{"mine": 1}')
    before = read_folder(folder)
    with pytest.raises(errors.UserError, match="is no work folder.*thesis"):
        run(base, overwrite=True)
    assert read_folder(folder) == before


def test_two_runs_do_not_write_one_output(base, monkeypatch):
    work_folder = create_pretraining_data.work_folder
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    os.makedirs(os.path.dirname(base.output_file))
    with work_folder.hold(base.output_file + ".work"):
        message = f"another run is writing .*, process {os.getpid()} or its ch"
        with pytest.raises(errors.UserError, match=message):
            run(base)
    run(base)


@pytest.mark.parametrize(
    "number, status",
    [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)],
)
def test_workers_end_with_their_parent(base, tmp_path, number, status):
    """The signal reaches the parent alone; the next run finds all still."""
    write_corpus(tmp_path / "a.txt", 1, 600)
    ended = changed(base, output_file=str(tmp_path / "ended"), num_workers=2)
    given = options.to_dict(ended).items()
    flags = [f"--{name}={value}" for name, value in given if value is not None]
    with open(tmp_path / "log", "w") as log:
        process = start_disturbed(
            "token_blocks", f"os.kill(parent, {number:d})", flags, stderr=log
        )
    # Workers share its output, which ends with the last of them.
    output, _ = process.communicate(timeout=300)
    assert process.returncode == status
    assert len(output.splitlines()[0].split()) == 2
    assert "Traceback" not in (tmp_path / "log").read_text()
    run(ended)
    run(base)
    assert (tmp_path / "ended").read_bytes() == (
        pathlib.Path(base.output_file).read_bytes()
    )


def die_in_a_worker(_):
    os.kill(os.getpid(), signal.SIGSEGV)


def test_signal_that_ended_a_worker_is_named():
    parallel = create_pretraining_data.parallel
    with (
        pytest.raises(errors.UserError, match="ended by a signal .SIGSEGV"),
        parallel.workers(2, None) as each,
    ):
        list(each(die_in_a_worker, range(4)))


def test_standard_input_is_read_anew(base, tmp_path, monkeypatch):
    def pipe(name):
        stream = io.BytesIO((tmp_path / name).read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))

    pipe("a.txt")
    interrupt(base, monkeypatch, instances, "save", input_file="-")
    pipe("b.txt")
    run(base, input_file="-")
    run(
        base,
        input_file=str(tmp_path / "b.txt"),
        output_file=str(tmp_path / "x"),
    )
    assert (tmp_path / "x").read_bytes() == (
        pathlib.Path(base.output_file).read_bytes()
    )


def test_closed_standard_input_is_named(base, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(errors.UserError, match="standard input.* is closed"):
        run(base, input_file="-")


DAMAGES = ("flip", "zeros", "cut", "empty", "removed")


def damage(path, how, rng):
    """Do to a file what a failing disk does; its bytes are others then."""
    content = bytearray(path.read_bytes())
    before, place = bytes(content), rng.randrange(len(content))
    if how == "removed":
        path.unlink()
        return
    while content == before:
        if how == "flip":
            content[place] ^= 1 << rng.randrange(8)
        elif how == "zeros":
            end = min(place + rng.randint(1, 2000), len(content))
            content[place:end] = bytes(end - place)
            place -= place > 0  # In case there were only zeros.
        else:
            del content[0 if how == "empty" else place :]
    path.write_bytes(content)


class Damaged:
    """A writer that was killed with each kind of file in its folder."""

    def __init__(self, base, tmp_path, monkeypatch):
        (tmp_path / "c.txt").write_bytes((tmp_path / "a.txt").read_bytes())
        self.base, self.changes = base, {"drop_duplicates": True}
        self.whole = in_folder(base, tmp_path / "whole", **self.changes)
        self.folder, self.kept = tmp_path / "killed", tmp_path / "kept"
        self.folder.mkdir()
        self.changes["output_file"] = ",".join(
            f"{self.folder}/{i}.tfrecord" for i in range(3)
        )
        owner = create_pretraining_data.shards.ShardWriter
        interrupt(base, monkeypatch, owner, "totals", **self.changes)
        shutil.copytree(self.folder, self.kept)

    def resume(self, name, how, rng, monkeypatch):
        """Damage one file, go on, and return the warnings."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.kept, self.folder)
        damage(self.folder / name, how, rng)
        warnings = []
        monkeypatch.setattr(
            create_pretraining_data.work_folder.logging,
            "warning",
            lambda message, *values: warnings.append(message % values),
        )
        run(self.base, **self.changes)
        found = content(self.folder)
        del found["0.tfrecord.manifest.json"]
        assert found == self.whole
        return [w for w in warnings if str(self.folder) in w]


@pytest.fixture
def damaged(base, tmp_path, monkeypatch, small_rooms):
    return Damaged(base, tmp_path, monkeypatch)


@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_work_is_done_again(damaged, monkeypatch, how):
    rng = random.Random(how)
    work = "0.tfrecord.work/"
    for name in (
        *("block-000001.npy", "unit-000001.rows", "unit-000002.tokens"),
        *("block-000000.json", "unit-000003.json", "shard-000002.json"),
        *("text.json", "duplicates.json", "job.json", "job-copy.json"),
        *("../0.tfrecord", "../2.tfrecord"),
    ):
        warnings = damaged.resume(work + name, how, rng, monkeypatch)
        if how == "removed" and name.endswith(".json"):
            assert not warnings  # As if the kill had come before it.
        else:
            (warning,) = warnings
            assert f"{os.path.basename(name)} is" in warning
            assert "done again" in warning


@pytest.mark.slow
@pytest.mark.parametrize("how", DAMAGES)
def test_any_damaged_file_of_the_work_leaves_the_records_alone(
    damaged, monkeypatch, how
):
    rng = random.Random(how)
    paths = [p for p in damaged.kept.rglob("*") if p.is_file()]
    paths = sorted(path for path in paths if path.stat().st_size)
    assert len(paths) > 30
    for path in paths:
        name = path.relative_to(damaged.kept)
        damaged.resume(name, how, rng, monkeypatch)


def test_work_damaged_while_it_is_done_ends_the_run(
    base, monkeypatch, small_rooms
):
    """What the disk lost is seen before it is used, and done again."""
    original = create_pretraining_data.instances.save

    def save(prefix, built):
        written = original(prefix, built)
        if prefix.endswith("1"):
            damage(pathlib.Path(f"{prefix}.rows"), "zeros", random.Random(1))
        return written

    whole = run(base, output_file=base.output_file + ".whole").output_file
    with monkeypatch.context() as patch:
        patch.setattr(create_pretraining_data.instances, "save", save)
        with pytest.raises(OSError, match="work was damaged meanwhile"):
            run(base)
    run(base)
    assert pathlib.Path(base.output_file).read_bytes() == (
        pathlib.Path(whole).read_bytes()
    )


# What the records are.


def test_shards_have_equal_numbers_of_records(base, tmp_path):
    options = run(base, output_file=str(tmp_path / "x"), num_shards=5)
    manifest = records.find_manifest(str(tmp_path / "x-00002-of-00005"))
    assert options.num_shards == len(manifest.shards) == 5
    sizes = [
        len(read_file(tmp_path / name, 32, 5)["input_ids"])
        for name in manifest.shards
    ]
    assert sum(sizes) == manifest.num_examples
    assert max(sizes) - min(sizes) <= 1
    for name, digest in zip(
        manifest.shards, manifest.shard_sha256, strict=True
    ):
        content = (tmp_path / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest


def read_file(path, length, predictions, compression=""):
    import tensorflow as tf

    dataset = tf.data.TFRecordDataset(str(path), compression_type=compression)
    batch = next(iter(dataset.batch(100_000)))
    layout = records.pretraining_layout(length, predictions)
    parsed = records.parse(layout, batch)
    return {name: value.numpy() for name, value in parsed.items()}


def test_packed_output_holds_the_same_records(base, tmp_path):
    run(base)
    run(base, output_file=str(tmp_path / "x.tfrecord.gz"))
    packed = gzip.decompress((tmp_path / "x.tfrecord.gz").read_bytes())
    assert packed == pathlib.Path(base.output_file).read_bytes()


def test_order_of_the_output_is_independent_of_the_input(base, tmp_path):
    """Places of a document's instances are spread over the whole output."""
    (tmp_path / "a.txt").write_text("")
    combinations = itertools.product("home read old books".split(), repeat=3)
    words = [" ".join(words) for words in combinations]
    (tmp_path / "b.txt").write_text(
        "".join(f"it rains\nwe stay\n{three}\n\n" for three in words)
    )
    options = run(base, dupe_factor=40, short_seq_prob=0.0)
    arrays = read_arrays(options)
    tokenizer = tokenization.Tokenizer(base.vocabulary.path)
    marks = {tuple(tokenizer.encode(w)): i for i, w in enumerate(words)}
    places, documents = [], []
    for place, ids in enumerate(restore(arrays)):
        text = ids.tolist()
        for mark, document in marks.items():
            n = len(mark)
            if any(
                tuple(text[i : i + n]) == mark for i in range(len(text) - n)
            ):
                places.append(place)
                documents.append(document)
    assert len(places) > 1500
    correlation = np.corrcoef(places, documents)[0, 1]
    assert abs(correlation) < 4 / len(places) ** 0.5
    # Each document comes up in every third of the output.
    third = len(arrays["input_ids"]) / 3
    for document in range(len(words)):
        own = [
            p for p, d in zip(places, documents, strict=True) if d == document
        ]
        assert {int(p // third) for p in own} == {0, 1, 2}


def restore(arrays):
    """The sequences before masking."""
    ids = arrays["input_ids"].copy()
    rows, columns = np.nonzero(arrays["masked_lm_weights"])
    positions = arrays["masked_lm_positions"][rows, columns]
    ids[rows, positions] = arrays["masked_lm_ids"][rows, columns]
    return ids


def test_duplicates_are_dropped_and_counted(base, tmp_path):
    text = (tmp_path / "a.txt").read_text()
    (tmp_path / "c.txt").write_text(text + "\nsomething else\nand more\n")
    run(base, drop_duplicates=True)
    manifest = records.find_manifest(base.output_file)
    assert manifest.corpus["duplicate_documents"] == 12
    (tmp_path / "c.txt").write_text("something else\nand more\n")
    other = run(base, output_file=str(tmp_path / "y"))
    np.testing.assert_array_equal(
        np.sort(restore(read_arrays(base)), axis=0),
        np.sort(restore(read_arrays(other)), axis=0),
    )


def test_records_for_masking_in_training(base):
    import tensorflow as tf

    run(base, masking_time="training")
    manifest = records.find_manifest(base.output_file)
    assert not manifest.has_masks
    record = next(iter(tf.data.TFRecordDataset(base.output_file))).numpy()
    features = tf.train.Example.FromString(record).features.feature
    assert sorted(features) == [
        *("input_ids", "input_mask", "next_sentence_labels"),
        *("segment_ids", "token_boundary"),
    ]


def test_one_segment_without_an_objective(base):
    arrays = read_arrays(run(base, sentence_objective="none"))
    ids = restore(arrays)
    assert not arrays["segment_ids"].any()
    assert not arrays["next_sentence_labels"].any()
    assert ((ids == 3).sum(1) == 1).all()


# Other outputs are protected.


def test_output_of_other_options_is_protected(base):
    run(base)
    before = pathlib.Path(base.output_file).read_bytes()
    run(base)  # The same options may be repeated.
    assert pathlib.Path(base.output_file).read_bytes() == before
    with pytest.raises(
        errors.UserError, match="--dupe_factor was 3, is now 4.*--overwrite"
    ):
        run(base, dupe_factor=4)
    assert pathlib.Path(base.output_file).read_bytes() == before
    run(base, dupe_factor=4, overwrite=True)
    manifest = records.find_manifest(base.output_file)
    assert manifest is not None and manifest.options["dupe_factor"] == 4


def test_output_may_be_named_by_another_path(base, monkeypatch):
    run(base)
    monkeypatch.chdir(os.path.dirname(base.output_file))
    run(base, output_file="a.tfrecord")
    with pytest.raises(errors.UserError, match=r"named \['a.tfrecord'\]"):
        run(base, output_file="a.tfrecord,b.tfrecord")


def test_output_of_another_vocabulary_is_protected(base, monkeypatch):
    run(base)
    manifest = records.find_manifest(base.output_file)
    monkeypatch.setattr(
        records,
        "find_manifest",
        lambda path: dataclasses.replace(manifest, vocab_sha256="another"),
    )
    with pytest.raises(
        errors.UserError, match="vocabulary file has another content"
    ):
        run(base)


def test_outputs_in_two_folders_each_have_a_manifest(base, tmp_path):
    first, second = tmp_path / "1" / "x", tmp_path / "2" / "x"
    for _ in range(2):  # The same options may be repeated.
        run(base, output_file=f"{first},{second}")
    manifests = [records.find_manifest(str(p)) for p in (first, second)]
    sizes = [len(read_file(p, 32, 5)["input_ids"]) for p in (first, second)]
    assert [m.num_examples for m in manifests] == sizes
    tokenizer = tokenization.Tokenizer(base.vocabulary.path)
    expected = records.Expected(32, 5, tokenizer.vocab_size)
    paths = [str(first), str(second)]
    assert records.check_records(paths, expected) == manifests


def test_all_that_stands_beside_records_is_known(base):
    run(base)
    folder = pathlib.Path(base.output_file).parent
    beside = {p.name.removeprefix("a.tfrecord") for p in folder.iterdir()}
    assert beside == {"", *files.BESIDE_RECORDS} - {".partial"}


def test_shards_of_another_set_are_refused(base):
    run(base, num_shards=2)
    with pytest.raises(errors.UserError, match="00000-of-00002 is a shard of"):
        run(base, num_shards=3, overwrite=True)
    run(base, num_shards=2)


def test_pattern_of_inputs_that_covers_the_output(base, tmp_path):
    changes = {"output_file": str(tmp_path / "x.txt")}
    (tmp_path / "x.txt.card.md").write_text("not text to train on")
    with pytest.raises(errors.UserError, match="x.txt.card.md is also an inp"):
        run(base, input_file=f"{tmp_path}/*", **changes)
    with pytest.raises(errors.UserError, match="job.json is also an input"):
        (tmp_path / "x.txt.work").mkdir()
        (tmp_path / "x.txt.work" / "job.json").write_text("{}")
        run(base, input_file=f"{tmp_path}/*/*", **changes)


def test_only_regular_files_are_outputs(base, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.UserError, match="pipe is a pipe or a device"):
        run(base, output_file=str(tmp_path / "pipe"), overwrite=True)
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "x.card.md").mkdir()
    with pytest.raises(errors.UserError, match="x.card.md is a folder"):
        run(base, output_file=str(tmp_path / "x"))


def test_output_through_a_symbolic_link(base, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/file")
    run(base, output_file=str(tmp_path / "link"))
    run(base)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == (
        pathlib.Path(base.output_file).read_bytes()
    )


def test_output_of_another_program_is_protected(base):
    os.makedirs(os.path.dirname(base.output_file))
    pathlib.Path(base.output_file).write_bytes(b"precious")
    with pytest.raises(errors.UserError, match="has no manifest"):
        run(base)
    assert pathlib.Path(base.output_file).read_bytes() == b"precious"


def test_overwriting_leaves_no_stale_manifest(base):
    second = base.output_file + ".2"
    run(base, output_file=f"{base.output_file},{second}")
    run(base, output_file=second, overwrite=True)
    manifest = records.find_manifest(second)
    assert manifest is not None and manifest.shards == ("a.tfrecord.2",)
    assert records.find_manifest(base.output_file) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": "/nowhere/*.txt"}, "matches no file"),
        ({"input_file": " , "}, "--input_file is empty"),
        ({"output_file": ","}, "--output_file is empty"),
        ({"output_file": "/tmp/x,/tmp/../tmp/x"}, "names /tmp/../tmp/x twice"),
        ({"output_file": "/tmp/x*"}, "looks like a pattern"),
        ({"output_file": "/tmp"}, "/tmp is a folder"),
        ({"output_file": "{folder}/a.txt"}, "a.txt is also an input"),
        (
            {"output_file": "{folder}/a.txt/x"},
            "--output_file: Cannot create the folder",
        ),
        ({"output_file": "gs://a/b"}, "gs://a/b is not on this machine"),
        ({"output_file": "/proc/x"}, "/proc/x.work cannot be made"),
        ({"num_shards": 0}, "--num_shards=0 is below 1"),
        (
            {"num_shards": 2, "output_file": "/tmp/x,/tmp/y"},
            "names 2 files, and --num_shards=2",
        ),
        ({"num_workers": -1}, "--num_workers=-1 is below 0"),
        (
            {"masking_time": "training", "do_permutation": True},
            "--do_permutation needs --masking_time=writing",
        ),
        ({"spm_model_file": "/nowhere"}, "--spm_model_file=/nowhere is not a"),
        ({"spm_model_file": None}, "--spm_model_file and --vocab_file are"),
        (
            {"spm_model_file": None, "vocab_file": "v.txt"},
            "--vocab_file=v.txt is not a file",
        ),
        (
            {
                "spm_model_file": None,
                "vocab_file": "v.txt",
                "strip_spurious_marker": True,
            },
            "--strip_spurious_marker=true is given with the WordPiece",
        ),
        ({"dupe_factor": 0}, "--dupe_factor=0 is below 1"),
        ({"random_seed": -1}, "--random_seed=-1 is below 0"),
    ],
)
def test_wrong_options_are_named(base, tmp_path, changes, message):
    changes = {
        name: value.format(folder=tmp_path) if name == "output_file" else value
        for name, value in changes.items()
    }
    with pytest.raises(errors.UserError, match=message):
        run(base, **changes)


@pytest.mark.parametrize("text", ["", "\n \n\t\n"])
def test_input_without_text_is_named_and_nothing_is_written(
    base, tmp_path, text
):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(text)
    with pytest.raises(errors.UserError, match=r"no usable document: 2 file"):
        run(base)
    assert not pathlib.Path(base.output_file).exists()


def test_more_files_than_instances_are_rejected(base, tmp_path):
    (tmp_path / "c").write_text("it rains\nwe stay\n")
    output = ",".join(f"{base.output_file}{i}" for i in range(3))
    with pytest.raises(errors.UserError, match="3 files, but .* only 1 inst"):
        run(
            base,
            input_file=str(tmp_path / "c"),
            output_file=output,
            dupe_factor=1,
        )


def test_text_without_instances_says_why(base, tmp_path):
    (tmp_path / "c").write_text("it\n\nwe\n")
    with pytest.raises(
        errors.UserError, match="only 0 inst.*unused documents: 6; .*sentences"
    ):
        run(base, input_file=str(tmp_path / "c"))


def test_what_is_too_short_is_counted(base, tmp_path):
    text = "it\n\nwe\n\nit rains we stay at home .\nwe read old books .\n"
    (tmp_path / "c").write_text(text)
    run(base, input_file=str(tmp_path / "c"), short_seq_prob=0.0)
    manifest = records.find_manifest(base.output_file)
    assert manifest.corpus["documents"] == 3
    assert manifest.corpus["unused_documents"] == 2 * base.dupe_factor
    assert manifest.corpus["unused_chunks"] == 2 * base.dupe_factor
    card = pathlib.Path(f"{base.output_file}.card.md").read_text()
    assert "2.0 documents that gave no instance, 2.0 chunks left out" in card


@pytest.fixture
def warnings(monkeypatch):
    """All that the writer warns of; see `test_summary_counts`."""
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
    run(base, input_file=str(tmp_path / "c"), short_seq_prob=0.0, **changes)
    return records.find_manifest(base.output_file)


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
    assert "cuts 96.4 % of the tokens off, 771 of each instance" in warning


def test_bad_lines_are_in_the_card(base, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"it rains\n\xe9\nwe stay\n")
    run(base, on_bad_line="skip")
    card = pathlib.Path(f"{base.output_file}.card.md").read_text()
    assert "- bad lines: 1 skipped, 0 replaced" in card


def test_input_that_may_not_be_read_is_named_at_once(base, monkeypatch):
    monkeypatch.setattr(corpus.os, "access", lambda *_: False)
    with pytest.raises(errors.UserError, match="--input_file=.*not be read"):
        run(base)
    assert not os.path.exists(os.path.dirname(base.output_file))


def test_masks_of_training_are_not_chosen_here(base, caplog):
    caplog.set_level(logging.WARNING)
    run(base, masking_time="training", masked_lm_prob=0.3)
    assert "--masked_lm_prob=0.3: not used" in caplog.text


def test_few_predictions_and_an_unused_vocabulary_are_warned_of(base, caplog):
    caplog.set_level(logging.WARNING)
    run(base, max_predictions_per_seq=3, vocab_file="v.txt", overwrite=True)
    assert "use --max_predictions_per_seq=5" in caplog.text
    assert "--vocab_file=v.txt is ignored" in caplog.text


def test_summary_counts(base, monkeypatch):
    # Not caplog: what it sees depends on what absl did in earlier tests.
    logged = []
    monkeypatch.setattr(
        create_pretraining_data.logging,
        "info",
        lambda message, *values: logged.append(message % values),
    )
    arrays = read_arrays(run(base))
    count = len(arrays["input_ids"])
    label_1 = arrays["next_sentence_labels"].mean()
    padding = 1 - arrays["input_mask"].mean()
    text = "\n".join(logged)
    assert "documents: 24 with" in text
    assert f"instances: {count:,} of" in text
    assert f"sentence-order label 1: {label_1:.1%}" in text
    assert f"padding is {padding:.1%}" in text
    labels = arrays["masked_lm_ids"][arrays["masked_lm_weights"] == 1]
    share = np.bincount(labels).max() / len(labels)
    assert f"the most frequent piece: {share:.1%}" in text


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "data_prep.create_pretraining_data"],
        [str(ROOT / "data_prep" / "create_pretraining_data.py")],
    ],
)
def test_script_runs_by_name_and_by_path(base, tmp_path, command):
    by_name = command[0] == "-m"
    result = subprocess.run(
        [
            sys.executable,
            *command,
            f"--input_file={base.text.input_file}",
            f"--output_file={base.output_file}",
            f"--spm_model_file={base.vocabulary.path}",
            "--max_seq_length=32",
            "--dupe_factor=1",
            "--nodo_permutation",
        ],
        cwd=ROOT if by_name else tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "written: " in result.stderr
    with open(f"{base.output_file}.manifest.json") as stream:
        assert json.load(stream)["options"]["max_seq_length"] == 32


def test_wrong_option_ends_with_status_2_and_without_traceback(tmp_path):
    result = subprocess.run(
        [
            sys.executable,
            str(ROOT / "data_prep" / "create_pretraining_data.py"),
            "--input_file=x",
            f"--output_file={tmp_path / 'out'}",
            "--spm_model_file=v",
            "--max_seq_length=4",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "error: --max_seq_length=4 is too small" in result.stderr
    assert "Traceback" not in result.stderr
