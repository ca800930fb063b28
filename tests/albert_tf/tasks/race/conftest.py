"""A folder that several test files of RACE read."""

import pytest

from tests.albert_tf.tasks.race.articles import article, write


@pytest.fixture
def raw_folder(tmp_path):
    """The layout of the download: one file for each article."""
    folder = tmp_path / "dev"
    for level, numbers in (("middle", (100, 20, 3)), ("high", (2, 1))):
        for number in numbers:
            name = f"{level}/{number}.txt"
            write(folder, name, article(number, level))
    return str(folder)
