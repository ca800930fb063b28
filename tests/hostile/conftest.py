"""What all hostile tests share: valid files, made once."""

import pytest

from tests.hostile import world as worlds


@pytest.fixture(scope="session")
def world(tmp_path_factory, tiny_vocab) -> worlds.World:
    return worlds.build(tmp_path_factory.mktemp("world"), tiny_vocab)


@pytest.fixture(scope="session")
def texts(tmp_path_factory, tiny_vocab) -> worlds.World:
    return worlds.build_texts(tmp_path_factory.mktemp("texts"), tiny_vocab)
