import os
import pathlib
import random
import shutil

import pytest

from albert_tf.common import folder_lock
from data_prep import create_pretraining_data
from data_prep.writer import token_blocks
from tests.conftest import refused
from tests.data_prep import writing


def test_a_job_that_has_finished_nothing_leaves_no_work(base, tmp_path):
    (tmp_path / "wrong").write_bytes(bytes(range(256)) * 9)
    with refused("wrong`: line"):
        writing.run(base, input_file=str(tmp_path / "wrong"))
    assert not os.path.exists(base.output_file + ".work")
    writing.run(base)


def test_a_killed_job_that_has_finished_nothing_may_be_changed(
    base, monkeypatch
):
    owner = create_pretraining_data.work_folder.WorkFolder
    with monkeypatch.context() as patch:
        patch.setattr(owner, "remove", lambda _: None)  # As after SIGKILL.
        writing.interrupt(base, monkeypatch, token_blocks, "save")
    assert os.path.exists(base.output_file + ".work/job.json")
    writing.run(base, dupe_factor=4)


@pytest.mark.usefixtures("many_pieces")
def test_a_job_with_a_bad_line_goes_on_or_may_be_corrected(base, tmp_path):
    with open(tmp_path / "b.txt", "ab") as stream:
        stream.write(b"\xff\n")
    for _ in range(2):  # The finished blocks stay.
        with refused("b.txt`: line .*not UTF-8"):
            writing.run(base)
        assert os.path.exists(base.output_file + ".work/block-000001.json")
    writing.run(base, on_bad_line="skip")


def test_a_kill_while_the_folder_is_removed(base, monkeypatch):
    whole = pathlib.Path(writing.run(base).output_file).read_bytes()
    remove, left = os.remove, 0

    def remove_some(path):
        nonlocal left
        if os.path.dirname(path) != base.output_file + ".work":
            remove(path)
        elif left > 0:  # Then it is as after SIGKILL.
            left -= 1
            remove(path)

    work = pathlib.Path(base.output_file + ".work")
    for count in range(100):
        left = count
        with monkeypatch.context() as patch:
            patch.setattr(os, "remove", remove_some)
            writing.run(base)
        if not work.exists():
            break
        writing.run(base)
        assert pathlib.Path(base.output_file).read_bytes() == whole
        assert not work.exists()
    assert count > 5


def test_a_job_with_too_little_text_may_be_given_more(base, tmp_path):
    (tmp_path / "c").write_text("it\n")
    changes = {"input_file": str(tmp_path / "c")}
    with refused("only 0 inst"):
        writing.run(base, **changes)
    (tmp_path / "c").write_text("it rains\nwe stay\n")
    writing.run(base, **changes)


@pytest.mark.parametrize(
    "name", ["a.tfrecord.work", "a.tfrecord.work/job.json"]
)
def test_folder_of_somebody_else_is_refused(base, name):
    folder = pathlib.Path(base.output_file + ".work")
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("precious")
    if name.endswith("job.json"):
        (folder / "job.json").write_text('{"mine": 1}')
    before = writing.read_folder(folder)
    with refused("is not a work folder.*thesis"):
        writing.run(base, overwrite=True)
    assert writing.read_folder(folder) == before


def test_two_runs_do_not_write_one_output(base, monkeypatch):
    work_folder = create_pretraining_data.work_folder
    monkeypatch.setattr(folder_lock, "PATIENCE", 0.0)
    os.makedirs(os.path.dirname(base.output_file))
    with work_folder.hold(base.output_file + ".work"):
        message = f"work` is in use by .*, process {os.getpid()} or its chil"
        with refused(message):
            writing.run(base)
    writing.run(base)


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
        self.whole = writing.in_folder(base, tmp_path / "whole", **self.changes)
        self.folder, self.kept = tmp_path / "killed", tmp_path / "kept"
        self.folder.mkdir()
        self.changes["output_file"] = ",".join(
            f"{self.folder}/{i}.tfrecord" for i in range(3)
        )
        owner = create_pretraining_data.shards.ShardWriter
        writing.interrupt(base, monkeypatch, owner, "totals", **self.changes)
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
        writing.run(self.base, **self.changes)
        found = writing.content(self.folder)
        del found["0.tfrecord.manifest.json"]
        assert found == self.whole
        return [w for w in warnings if str(self.folder) in w]


@pytest.fixture
def damaged(base, tmp_path, monkeypatch, many_pieces):
    return Damaged(base, tmp_path, monkeypatch)


@pytest.mark.slow
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
            assert "is repeated" in warning


def test_work_damaged_while_it_is_done_ends_the_run(
    base, monkeypatch, many_pieces
):
    """What the disk lost is seen before it is used, and done again."""
    original = create_pretraining_data.instances.save

    def save(prefix, built):
        written = original(prefix, built)
        if prefix.endswith("1"):
            damage(pathlib.Path(f"{prefix}.rows"), "zeros", random.Random(1))
        return written

    whole = writing.run(
        base, output_file=base.output_file + ".whole"
    ).output_file
    with monkeypatch.context() as patch:
        patch.setattr(create_pretraining_data.instances, "save", save)
        with pytest.raises(OSError, match="work was damaged during this run"):
            writing.run(base)
    writing.run(base)
    assert pathlib.Path(base.output_file).read_bytes() == (
        pathlib.Path(whole).read_bytes()
    )
