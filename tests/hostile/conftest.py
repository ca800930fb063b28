"""What all hostile tests share: valid files, made once."""

import shutil

import pytest

from tests.hostile import world as worlds
from tests.hostile.readers import READERS


@pytest.fixture(scope="session")
def world(tmp_path_factory, tiny_vocab) -> worlds.World:
    return worlds.build(tmp_path_factory.mktemp("world"), tiny_vocab)


@pytest.fixture(scope="session")
def texts(tmp_path_factory, tiny_vocab) -> worlds.World:
    return worlds.build_texts(tmp_path_factory.mktemp("texts"), tiny_vocab)


@pytest.fixture
def place(world, tmp_path, request):
    """A copy of what a reader reads: the whole, and the file to be damaged."""
    reader = READERS[request.param]
    source = world[reader.source]
    copy = tmp_path / "copy" / source.name
    copy.parent.mkdir()
    (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
    if reader.source == "features":
        shutil.copy(world["spm.model"], copy)
    return reader, copy, copy / reader.damaged
