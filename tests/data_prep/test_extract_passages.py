import json
import lzma
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from absl import logging

from albert_tf.common import errors
from albert_tf.data import masking
from albert_tf.text import tokenization
from data_prep import create_pretraining_data, extract_passages
from data_prep.writer import corpus, segment_pairs

ROOT = Path(__file__).parents[2]


def squad(*articles):
    """The content of a file: articles of contexts."""
    return {
        "version": "1.1",
        "data": [
            {
                "title": f"Article_{number}",
                "paragraphs": [{"context": c, "qas": []} for c in contexts],
            }
            for number, contexts in enumerate(articles)
        ],
    }


def write_race(folder, **passages):
    """Write passages, `middle=["..."], high=[]`, as files 1.txt and so on."""
    for level in ("middle", "high"):
        (folder / level).mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(passages.get(level, ()), 1):
            entry = {
                "answers": ["A"],
                "options": [["one", "two", "three", "four"]],
                "questions": ["Never read. Never read."],
                "article": text,
                "id": f"{level}{number}.txt",
            }
            path = folder / level / f"{number}.txt"
            path.write_text(json.dumps(entry), encoding="utf-8")
    return str(folder)


@pytest.fixture
def squad_file(tmp_path):
    path = tmp_path / "dev.json"
    articles = (
        ["It rained. We left.", "The gas is O\n2. It burns."],
        ["One paragraph here."],
    )
    path.write_text(json.dumps(squad(*articles)))
    return path


@pytest.fixture
def race_dir(tmp_path):
    return write_race(
        tmp_path / "dev", middle=["A title\nShe came. He ran."], high=["So?"]
    )


def extract(folder, **sources):
    """Run the script's function and return the written lines."""
    output = folder / "out.txt"
    extract_passages.run(
        extract_passages.Options(
            output_file=str(output),
            overwrite=True,
            **{name: str(value) for name, value in sources.items()},
        )
    )
    return output.read_text(encoding="utf-8").split("\n")


SQUAD_LINES = [
    *("It rained.", "We left.", "The gas is O 2.", "It burns.", ""),
    *("One paragraph here.", ""),
]
RACE_LINES = ["A title", "She came.", "He ran.", "", "So?", ""]


def test_article_of_squad_is_a_document(tmp_path, squad_file):
    assert extract(tmp_path, squad_file=squad_file) == [*SQUAD_LINES, ""]


def test_passage_of_race_is_a_document(tmp_path, race_dir):
    assert extract(tmp_path, race_dir=race_dir) == [*RACE_LINES, ""]


def test_both_together(tmp_path, squad_file, race_dir):
    found = extract(tmp_path, squad_file=squad_file, race_dir=race_dir)
    assert found == [*SQUAD_LINES, *RACE_LINES, ""]


def test_files_of_race_by_number(tmp_path):
    folder = write_race(tmp_path / "dev", middle=[f"No {i}" for i in range(12)])
    write_race(tmp_path / "dev", high=["Last"])
    names = extract(tmp_path, race_dir=folder)[::2]
    assert names == [*(f"No {i}" for i in range(12)), "Last", ""]


def test_several_passages_in_a_file(tmp_path):
    folder = write_race(tmp_path / "dev", middle=["First."], high=["Last."])
    lines = [{"article": "One\u2028line."}, {"article": "Two."}]
    text = "\r\n\n".join(json.dumps(v, ensure_ascii=False) for v in lines)
    (tmp_path / "dev" / "middle" / "all.txt").write_text(
        f"\ufeff{text}\n", encoding="utf-8"
    )
    found = extract(tmp_path, race_dir=folder)
    expected = ["First.", "", "One line.", "", "Two.", "", "Last.", "", ""]
    assert found == expected


def test_duplicates_are_dropped_and_counted(tmp_path, squad_file, caplog):
    caplog.set_level("INFO", logging.get_absl_logger().name)
    again = tmp_path / "dev2.json"
    contexts = ["New text.", " It  rained.\nWe left. "], ["One paragraph here."]
    again.write_text(json.dumps(squad(*contexts)))
    folder = write_race(
        tmp_path / "dev", middle=["New text."], high=["Other.", "Other."]
    )
    found = extract(
        tmp_path, squad_file=f"{squad_file},{again}", race_dir=folder
    )
    assert found == [*SQUAD_LINES, "New text.", "", "Other.", "", ""]
    line = caplog.messages[-1]
    assert line.startswith("7 sentences in 4 documents written to ")
    assert line.endswith(
        "9 passages read from 2 files of SQuAD and 3 of RACE, of them 4 "
        "duplicates dropped"
    )


def test_the_writer_reads_the_result(
    tmp_path, squad_file, race_dir, tiny_vocab
):
    extract(tmp_path, squad_file=squad_file, race_dir=race_dir)
    output = tmp_path / "dev.tfrecord"
    create_pretraining_data.run(
        create_pretraining_data.CreatePretrainingDataOptions(
            text=corpus.CorpusOptions(str(tmp_path / "out.txt")),
            output_file=str(output),
            vocabulary=tokenization.VocabularyOptions(tiny_vocab),
            dupe_factor=1,
            pairs=segment_pairs.PairOptions(max_seq_length=32),
            masks=masking.MaskingOptions(max_predictions_per_seq=5),
        )
    )
    manifest = json.loads(Path(f"{output}.manifest.json").read_text())
    assert manifest["corpus"]["documents"] == 4
    assert manifest["corpus"]["sentences"] == 9


def test_script(tmp_path, squad_file, race_dir):
    subprocess.run(
        [
            sys.executable,
            "data_prep/extract_passages.py",
            f"--squad_file={squad_file}",
            f"--race_dir={race_dir}",
            f"--output_file={tmp_path}/new/out.txt",
        ],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    lines = (tmp_path / "new" / "out.txt").read_text().split("\n")
    assert lines == [*SQUAD_LINES, *RACE_LINES, ""]


def paragraph(value):
    return {"data": [{"paragraphs": [{"context": "A."}, value]}]}


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "dev.json: this is not JSON"),
        ("[]", r"dev.json must be an object, not \[\]"),
        ('{"Data": []}', "dev.json: the key 'data' is missing; there are 'D"),
        ('{"data": 1}', "dev.json, 'data' must be a list, not 1"),
        ('{"data": [3]}', "dev.json, article 1 must be an object, not 3"),
        ('{"data": [{}]}', "article 1: the key 'paragraphs' .* are none"),
        (paragraph({}), "article 1, paragraph 2: the key 'context' is missing"),
        (
            paragraph({"context": 5}),
            "paragraph 2, 'context' must be a text, not 5",
        ),
        (paragraph({"context": " \n"}), "paragraph 2: 'context' is empty"),
        (paragraph({"context": "\ud83d"}), r"dev.json: .* half of a character"),
        (squad(), "There is no text in .*dev.json"),
        (squad([]), "There is no text in .*dev.json"),
    ],
)
def test_bad_squad_file(content, message, squad_file, tmp_path):
    whole = content if isinstance(content, str) else json.dumps(content)
    squad_file.write_text(whole)
    with pytest.raises(errors.UserError, match=message):
        extract(tmp_path, squad_file=squad_file)
    assert [path.name for path in tmp_path.iterdir()] == ["dev.json"]


def test_packed_file(tmp_path, squad_file):
    packed = tmp_path / "dev.json.xz"
    packed.write_bytes(lzma.compress(squad_file.read_bytes()))
    with pytest.raises(
        errors.UserError, match="json.xz is not UTF-8: byte 1 of .*Unpack"
    ):
        extract(tmp_path, squad_file=packed)


@pytest.mark.parametrize(
    "content, message",
    [
        ('{"article": "A."}\n{', "2.txt, line 2: this is not JSON"),
        ('\n{"questions": []}', "2.txt, line 2: the key 'article' is missing"),
        ('{"article": ""}', "2.txt, line 1: 'article' is empty"),
        ("5", "2.txt, line 1 must be an object, not 5"),
    ],
)
def test_bad_race_file(content, message, race_dir, tmp_path):
    (Path(race_dir) / "high" / "2.txt").write_text(content)
    with pytest.raises(errors.UserError, match=f"--race_dir: .*{message}"):
        extract(tmp_path, race_dir=race_dir)
    assert not (tmp_path / "out.txt").exists()


def test_folder_that_is_no_split_of_race(race_dir, tmp_path):
    with pytest.raises(errors.UserError, match="no folder 'middle'.*RACE/dev"):
        extract(tmp_path, race_dir=tmp_path)
    (Path(race_dir) / "high" / "1.txt").unlink()
    with pytest.raises(errors.UserError, match=r"high/\*.txt` matches no file"):
        extract(tmp_path, race_dir=race_dir)


def test_nothing_to_read(tmp_path):
    with pytest.raises(errors.UserError, match="--squad_file nor --race_dir"):
        extract(tmp_path)
    with pytest.raises(errors.UserError, match="`squad_file=.*` matches no fi"):
        extract(tmp_path, squad_file=tmp_path / "missing.json")


def test_no_file_is_replaced_unasked(tmp_path, squad_file):
    before = squad_file.read_bytes()
    output = tmp_path / "out.txt"
    output.write_text("kept\n")
    for path, message in (
        (squad_file, "one of the input files"),
        (output, "`overwrite`"),
        (tmp_path, "is a folder"),
    ):
        with pytest.raises(errors.UserError, match=message):
            extract_passages.run(
                extract_passages.Options(
                    output_file=str(path), squad_file=str(squad_file)
                )
            )
    assert squad_file.read_bytes() == before
    assert output.read_text() == "kept\n"


def test_real_development_sets(shared_dir, tmp_path):
    data = shared_dir / "data"
    texts = []
    for version in ("v1.1", "v2.0"):
        packed = data / "squad" / f"dev-{version}.json.xz"
        content = lzma.decompress(packed.read_bytes())
        (tmp_path / f"dev-{version}.json").write_bytes(content)
        texts += [
            paragraph["context"]
            for article in json.loads(content)["data"]
            for paragraph in article["paragraphs"]
        ]
    with tarfile.open(data / "race" / "RACE.tar.xz") as archive:
        members = [m for m in archive if m.name.startswith("RACE/dev")]
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path, members)
    for path in sorted(tmp_path.glob("RACE/dev/*/*.txt")):
        texts.append(json.loads(path.read_text(encoding="utf-8"))["article"])

    lines = extract(
        tmp_path,
        squad_file=tmp_path / "dev-v*.json",
        race_dir=tmp_path / "RACE" / "dev",
    )

    # 24 articles of version 1.1, one more of version 2.0, 695 passages.
    assert len(texts) == 1048 + 547 + 695
    assert lines.count("") - 1 == 24 + 1 + 695
    assert len(lines) - 1 - 720 == 18_617
    # Every character of every passage once, and nothing else.
    unique = {" ".join(text.split()) for text in texts}
    assert len(unique) == 1048 + 26 + 695
    written = "".join("".join(lines).split())
    assert len(written) == sum(len(t.replace(" ", "")) for t in unique)
    assert sorted(written) == sorted("".join(unique).replace(" ", ""))
