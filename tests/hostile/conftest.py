"""Fixtures of the hostile tests: valid files, made once."""

import pathlib
import shutil

import onnxruntime  # noqa: F401  # Its first import writes to $HOME.
import pytest

from tests.hostile import commands, sampling, valid_inputs
from tests.hostile.commands import SHORT
from tests.hostile.readers import READERS


@pytest.fixture(scope="session")
def inputs(tmp_path_factory, tiny_vocab) -> pathlib.Path:
    return valid_inputs.build(tmp_path_factory.mktemp("inputs"), tiny_vocab)


@pytest.fixture(scope="session")
def texts(tmp_path_factory, tiny_vocab) -> pathlib.Path:
    return valid_inputs.build_texts(
        tmp_path_factory.mktemp("texts"), tiny_vocab
    )


@pytest.fixture
def reader_files(inputs, tmp_path, request):
    reader = READERS[request.param]
    source = inputs / reader.source
    copy = tmp_path / "copy" / source.name
    copy.parent.mkdir()
    (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
    if reader.source == "features":
        shutil.copy(inputs / "spm.model", copy)
    return reader, copy, copy / reader.damaged


@pytest.fixture
def try_it(tmp_path, inputs, monkeypatch, capfd):
    workspace = commands.Workspace(tmp_path, inputs)
    workspace.make()
    workspace.enter(monkeypatch)

    def run(short, changes, says=(), leaves=()):
        flags = workspace.flags(SHORT[short], changes)
        before = workspace.surroundings()
        with sampling.time_limit():
            done = commands.run_inside(SHORT[short], flags, capfd)
        commands.check(done, workspace, before, says, leaves)
        return done

    run.workspace = workspace
    return run
