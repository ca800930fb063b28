"""What finetuning keeps between two starts, when it comes back damaged.

The same command makes it anew or names it; it never learns from it. That of
the writer of records is in tests/data_prep/writer/test_work_folder.py.
"""

import shutil

import numpy as np
import pytest

from albert_tf.finetuning import saved_outputs
from albert_tf.model.checkpoints import checkpoint_reader
from tests.hostile import commands, damages, sampling

pytestmark = pytest.mark.slow

KEPT = {
    "teacher's outputs": "teacher-rte-*/00000.npz",
    "teacher's manifest": "teacher-rte-*/teacher_outputs.json",
    "features": "rte-train-*.tfrecord",
    "facts of features": "rte-train-*.tfrecord.json",
}


@pytest.fixture(scope="module")
def start(inputs, tmp_path_factory):
    """Trains a student for one update with what is in a folder."""

    def start(cached, capfd):
        out = tmp_path_factory.mktemp("start")
        workspace = commands.Workspace(out, inputs)
        workspace.make()
        changes = {
            "teacher": inputs / "rte",
            "cached_dir": cached,
            "output_dir": out / "run",
        }
        name = commands.SHORT["run_classifier"]
        flags = workspace.flags(name, changes)
        with sampling.time_limit():
            done = commands.run_inside(name, flags, capfd)
        weights = None
        if not done.status:
            found = checkpoint_reader.read(str(out / "run"))
            weights = found.load(found.shapes)
        return done, weights

    return start


@pytest.fixture(scope="module")
def first_start(start, tmp_path_factory):
    """Returns what the first start keeps, and its weights; trains once."""

    made = []

    def first_start(capfd):
        if not made:
            whole = tmp_path_factory.mktemp("first") / "whole"
            done, weights = start(whole, capfd)
            assert weights is not None, done
            made.append((whole, weights))
        return made[0]

    return first_start


@pytest.mark.parametrize("kind", KEPT)
def test_kept_files_that_are_damaged(start, first_start, tmp_path, capfd, kind):
    whole, expected = first_start(capfd)
    changes = {**damages.BYTES, "missing": None}
    for damage in sampling.some([*changes], 2, kind):
        cached = tmp_path / damage.replace(" ", "-")
        shutil.copytree(whole, cached)
        (path,) = cached.glob(KEPT[kind])
        content = path.read_bytes()
        path.unlink()
        if changes[damage]:
            path.write_bytes(changes[damage](content))
        done, weights = start(cached, capfd)
        if weights is None:
            assert done.status == 2, (damage, done)
            assert path.name in done.said, (damage, done)
            assert "teacher" not in kind, (damage, done)
        else:
            np.testing.assert_equal(weights, expected, damage)
            if path.parent.name.startswith("teacher"):
                saved_outputs.TeacherOutputs(str(path.parent))
