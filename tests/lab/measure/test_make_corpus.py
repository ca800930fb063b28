"""The corpus of the experiments, from small files of every kind."""

import hashlib
import io
import json
import lzma
import tarfile

import pytest

from lab.measure import make_corpus

LEAK = "the model must not have read this long sentence before it is measured"
SHORT = "A short sentence of seven words here."


def write_archive(path, members):
    with tarfile.open(path, "w:xz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name in make_corpus.SOURCES + make_corpus.EVALUATION:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"It says: {LEAK}!\nOf {name}.\n{SHORT.upper()}\n"
        content = "\n\n".join(f"{text}Number {n}." for n in range(200))
        if name == "race/RACE.tar.xz":
            passage = {"article": LEAK, "options": [["a", "b"]]}
            write_archive(
                path,
                {
                    "RACE/dev/middle/1.txt": json.dumps(passage),
                    "RACE/train/middle/1.txt": "not read",
                },
            )
            continue
        if name.endswith(".tar.xz"):
            text = "Part.\nEvery book has\nthis one line.\n\nThe end."
            books = {f"{n}.txt": f"{name} {n}. {text}" for n in range(4)}
            write_archive(path, books)
            continue
        if name in make_corpus.EVALUATION:
            content = json.dumps({"sentence_good": f"First one. {SHORT}"})
        if ".tsv" in name:
            content = f"id\tsentence\n1\tNothing {name}\n"
        packed = lzma.compress(content.encode())
        path.write_bytes(packed if ".xz" in name else content.encode())
    return folder


def test_corpus_of_small_files(data_dir, tmp_path, caplog):
    settings = make_corpus.CorpusOptions(str(data_dir), str(tmp_path))
    caplog.set_level("INFO", "absl")
    make_corpus.run(settings)
    train = (tmp_path / "train.txt").read_text()
    held = (tmp_path / "held_out.txt").read_text()
    assert LEAK not in train
    assert SHORT.upper() not in train
    # A line that is in the held-out book, too, is left out.
    book = "1.\nPart.\nThe end.", "2.\nPart.\nEvery book has this one line.\n"
    assert book[0] in train
    assert book[1] in held
    both = set(train.split("\n\n")) & set(held.split("\n\n"))
    assert both == {""}
    content = json.loads((tmp_path / "corpus.json").read_text())
    books = content["sources"]["corpora/gutenberg.tar.xz"]
    assert books["train"]["units"] == 3 and books["held_out"]["units"] == 1
    assert books["train"]["lines"] == 9
    stories = content["sources"]["en/storybooks.txt.xz"]
    assert stories["held_out"]["units"] == 2
    assert stories["removed_lines"] == {"evaluation": 396, "held_out": 0}
    digest = hashlib.sha256(train.encode()).hexdigest()
    assert content["sha256"]["train.txt"] == digest
    assert f"en/storybooks.txt.xz: {stories}" in caplog.text


def test_held_out_units_do_not_depend_on_their_order():
    units = [f"unit {n}" for n in range(100)]
    train, held = make_corpus.hold_out(units, 0.1, 1)
    assert len(held) == 10
    assert sorted(train + held) == sorted(units)
    again = make_corpus.hold_out(units[::-1], 0.1, 1)[1]
    assert again == held[::-1]
    assert make_corpus.hold_out(units, 0.1, 2)[1] != held
    assert len(make_corpus.hold_out(units[:3], 0.1, 1)[1]) == 1


def test_lines_that_go_leave_no_two_empty_lines():
    known = make_corpus.overlap.Overlap([SHORT])
    unit = f"{SHORT}\nStay.\n\n{SHORT}\n\nGo.\n{SHORT}"
    assert make_corpus.remove(unit, known) == ("Stay.\n\nGo.", 3)
