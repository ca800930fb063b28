"""The script: all files, the same bytes for the same seed, clear errors."""

from data_prep import make_demo_data
from tests.conftest import refused

SMALL = {"num_stories": 40, "num_task_examples": 120}


def read_tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def make(folder, **changes):
    demo = make_demo_data.DemoOptions(
        output_dir=str(folder), **(SMALL | changes)
    )
    make_demo_data.run(demo)
    tree = read_tree(folder)
    del tree["demo_options.json"]  # It names the folder.
    return tree


def test_all_files_are_written(tmp_path):
    tree = make(tmp_path)
    splits = ("train", "dev", "test")
    assert set(tree) == set(make_demo_data.FILE_NAMES)
    rows = [len(tree[f"glue/CoLA/{s}.tsv"].splitlines()) for s in splits]
    assert rows == [120, 16, 4 + 1]  # Only that of the test split has a header.
    texts = [tree[f"glue/CoLA/{s}.tsv"].decode() for s in splits]
    told = [line.split("\t")[-1] for text in texts for line in text.split("\n")]
    assert len(set(told)) == 120 + 16 + 4 + 2  # None again in another split.
    assert tree["corpus/dev.txt"].count(b"\n\n") == 1  # Two of 40 stories.
    assert b"--random_seed=12345" in tree["ABOUT.txt"]


def test_same_seed_same_bytes_other_seed_other_bytes(tmp_path):
    first = make(tmp_path / "a")
    assert first == make(tmp_path / "b")
    other = make(tmp_path / "c", random_seed=1)
    assert set(first) == set(other)
    same = [path for path in first if first[path] == other[path]]
    assert same == ["corpus/glossary.txt"]  # Words, not stories.


def test_one_size_does_not_change_the_other_files(tmp_path):
    first = make(tmp_path / "a")
    second = make(tmp_path / "b", num_stories=41)
    changed = {path for path in first if first[path] != second[path]}
    assert changed == {"ABOUT.txt", "corpus/train.txt"}


def test_a_folder_keeps_its_options(tmp_path):
    first = make(tmp_path)
    assert make(tmp_path) == first
    with refused("--num_stories was 40, is now 5"):
        make(tmp_path, num_stories=5)
    tree = read_tree(tmp_path)
    del tree["demo_options.json"]
    assert tree == first
