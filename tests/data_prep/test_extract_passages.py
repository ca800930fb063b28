"""The texts of SQuAD and RACE as documents of sentences."""

import json
import os
import pathlib

import pytest

from data_prep import extract_passages
from tests.conftest import python, refused


def squad(*articles):
    """The content of a file: articles of contexts."""
    return {
        "data": [
            {"paragraphs": [{"context": text, "qas": []} for text in contexts]}
            for contexts in articles
        ]
    }


@pytest.fixture
def sources(tmp_path):
    """Two articles of SQuAD; twelve passages of RACE with a copy."""
    (tmp_path / "dev.json").write_text(
        json.dumps(
            squad(
                ["It rained. We left.", "The gas is O\n2. It burns."],
                ["One paragraph here.", " It  rained.\nWe left. "],
            )
        )
    )
    for level in ("middle", "high"):
        (tmp_path / "dev" / level).mkdir(parents=True)
    for number in range(1, 12):
        path = tmp_path / "dev" / "middle" / f"{number}.txt"
        path.write_text(json.dumps({"article": f"No {number}", "id": "x"}))
    (tmp_path / "dev" / "high" / "1.txt").write_text(
        '\ufeff{"article": "A title\\nShe came. He\u2028ran."}\r\n\n'
        '{"article": "No  3"}\n',
        encoding="utf-8",
    )
    return {
        "squad_file": str(tmp_path / "dev.json"),
        "race_dir": str(tmp_path / "dev"),
    }


SQUAD = "It rained.|We left.|The gas is O 2.|It burns.||One paragraph here.||"
RACE = "|".join(f"No {n}|" for n in range(1, 12))
RACE += "|A title|She came.|He ran.||"


def test_articles_and_passages_are_documents_without_copies(tmp_path, sources):
    done = python(
        "data_prep/extract_passages.py",
        f"--output_file={tmp_path}/new/out.txt",
        *(f"--{name}={value}" for name, value in sources.items()),
    )
    lines = (tmp_path / "new" / "out.txt").read_text().split("\n")
    assert lines == f"{SQUAD}{RACE}".split("|")
    assert "14 documents written" in done.stderr
    assert "of 17 passages, 2 equal an earlier one" in done.stderr


def extract(folder, **sources):
    output = folder / "out.txt"
    extract_passages.run(extract_passages.Options(str(output), **sources))
    return output.read_text(encoding="utf-8").split("\n")


def test_race_alone(tmp_path, sources, caplog):
    race_dir = str(tmp_path / "RACE[dev], copy")
    os.rename(sources["race_dir"], race_dir)
    for name in ("._1.txt", "notes.txt"):
        pathlib.Path(race_dir, "middle", name).write_bytes(b"\0")
    pathlib.Path(race_dir, "high", "a.txt").mkdir()
    assert extract(tmp_path, race_dir=race_dir) == RACE.split("|")
    assert [record.args[0] for record in caplog.records[:2]] == [1, 1]
    assert "middle/notes.txt" in caplog.text and "high/a.txt" in caplog.text
    with refused("exists.*`overwrite`"):
        extract(tmp_path, race_dir=race_dir)


@pytest.mark.parametrize(
    "content, message",
    [
        ([3], "int instead of a JSON object"),
        ({"Data": []}, "dev.json: there is no list 'data'"),
        ({"data": [3]}, "article 1: there is no list 'paragraphs'"),
        (squad(["A."], ["B.", " \n"]), "article 2, paragraph 2: there is no t"),
        (squad([]), "There is no text in .*dev.json"),
    ],
)
def test_files_in_another_layout_are_refused(content, message, tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(content))
    with refused(message):
        extract(tmp_path, squad_file=str(path))
    assert [path.name for path in tmp_path.iterdir()] == ["dev.json"]


def test_folder_that_is_no_split_of_race(tmp_path, sources):
    (tmp_path / "dev" / "high" / "1.txt").unlink()
    with refused("nor files like high/13.txt"):
        extract(tmp_path, race_dir=sources["race_dir"])
    with refused("--squad_file nor --race_dir"):
        extract(tmp_path)
