import gzip
import io
import lzma
import os
import signal
import tarfile
from pathlib import Path

import pytest

from data_prep import split_sentences
from tests.conftest import python, refused

PROSE = """\ufeffMr. Fox left at 5 p.m. in
the rain. "Why?   I know." He ran.\r
\r

It was Dr. Hare's
  only chance!
"""
SENTENCES = [
    "Mr. Fox left at 5 p.m. in the rain.",
    '"Why?',
    'I know."',
    "He ran.",
    "It was Dr. Hare's only chance!",
]


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_bytes(PROSE.encode())
    return path


def split(input_file, **changes):
    """Run the script's function and return the written lines."""
    output = Path(str(input_file).split(",")[0]).with_name("out.txt")
    settings = split_sentences.Options(
        input_file=str(input_file),
        output_file=str(output),
        num_processes=changes.pop("num_processes", 1),
        overwrite=True,
        **changes,
    )
    split_sentences.run(settings)
    return output.read_text(encoding="utf-8").split("\n")


def test_wrapped_lines_are_joined_and_cut_into_sentences(book):
    assert split(book) == [*SENTENCES, "", ""]


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        ("every exam-\nple of it", ["every example of it"]),
        ("every exam\u00ad\nple of it", ["every example of it"]),
        ("a state-of-\nthe-art one", ["a state-of-the-art one"]),
        ("Ein-\nund Ausgang", ["Ein- und Ausgang"]),
        ("in Baden-\nBaden", ["in Baden-Baden"]),
        ("a dash -\nand more", ["a dash - and more"]),
        ("* one\n* two\n  more", ["* one", "* two more"]),
        (
            "Buy:\n\u2022 milk\n\u2022 tea",
            ["Buy:", "\u2022 milk", "\u2022 tea"],
        ),
        ("  - a\n  - b\nEND", ["- a", "- b", "END"]),
        ("1. a\n2) b\nc", ["1. a", "2) b c"]),
        (
            "He came\n- late -\nin May\n5. and",
            ["He came - late - in May 5. and"],
        ),
    ],
)
def test_cut_words_are_whole_and_items_apart(text, paragraphs):
    found = split_sentences.read_paragraphs(io.BytesIO(text.encode()), "x")
    assert list(found) == paragraphs


def test_the_language_chooses_the_rules(book, caplog):
    caplog.set_level("INFO", "absl")
    book.write_text("Es war der 2. Versuch. Er gelang.")
    found = split(book, language="de")
    assert found == ["Es war der 2. Versuch.", "Er gelang.", "", ""]
    assert "--language" not in caplog.text
    assert "2 sentences in 1 documents written to" in caplog.text


@pytest.mark.parametrize("processes", [1, 2])
def test_without_a_language_the_choice_is_logged(book, caplog, processes):
    caplog.set_level("INFO", "absl")
    book.write_text("One. Two.\n\nThree.\n\n今天很好。我们走吧！\n")
    found = split(book, num_processes=processes)
    assert found[3:5] == ["今天很好。", "我们走吧！"]
    rules = "2 paragraph(s) by the rules of en, 1 paragraph(s) by the"
    assert f"--language is not given: {rules}" in caplog.text


def test_each_file_is_a_document(book):
    second = book.with_name("second.txt")
    second.write_text("One. Two.")
    book.with_name("third.txt").write_text(" \n\n")
    pattern = f"{book},{book.parent}/[st]*d.txt"
    assert split(pattern) == [*SENTENCES, "", "One.", "Two.", "", ""]


@pytest.mark.parametrize(
    "limit, expected",
    [
        (1, ["A.", "B.", "", "C.", "", "D.", "", "E.", ""]),
        (3, ["A.", "B.", "C.", "", "D.", "", "E.", ""]),
        (0, ["A.", "B.", "C.", "D.", "", "E.", ""]),
    ],
)
def test_documents_end_with_a_paragraph(limit, expected):
    paragraphs = [["A.", "B."], ["C."], ["D."], [], [], ["E."], []]
    lines = split_sentences.to_lines(paragraphs, limit)
    assert list(lines) == expected


def add(archive, name, kind=tarfile.REGTYPE, content=b"", link=""):
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, len(content), link
    archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("ending", ["xz", "gz"])
def test_members_are_documents_links_and_devices_none(ending, book, caplog):
    packed = book.with_name(f"books.tar.{ending}")
    with tarfile.open(packed, f"w:{ending}") as archive:
        add(archive, "d", tarfile.DIRTYPE)
        add(archive, "nothing", tarfile.SYMTYPE, link="nowhere")
        add(archive, "itself", tarfile.SYMTYPE, link="itself")
        add(archive, "a.txt", content=b"A.")
        add(archive, "again", tarfile.LNKTYPE, link="a.txt")
        add(archive, "out", tarfile.SYMTYPE, link=str(book))
        add(archive, "hard", tarfile.LNKTYPE, link="nowhere")
        add(archive, "device", tarfile.CHRTYPE)
        add(archive, "pipe", tarfile.FIFOTYPE)
        add(archive, "/etc/outside", content=b"B.")
        add(archive, "../../outside", content=b"C.")
    before = sorted(book.parent.iterdir())
    assert split(packed) == ["A.", "", "B.", "", "C.", "", ""]
    names = "nothing itself again out hard device pipe".split()
    assert [w.split(" is ")[0] for w in caplog.messages] == [
        f"{packed}/{name}" for name in names
    ]
    after = sorted(book.parent.iterdir())
    assert after == sorted([*before, book.parent / "out.txt"])


@pytest.mark.parametrize("ending", ["xz", "gz"])
def test_no_later_part_of_an_archive_is_dropped(ending, book):
    """Also where its first part is an archive that could be whole."""
    pack = {"xz": lzma.compress, "gz": gzip.compress}[ending]
    packed, parts = book.with_name(f"books.tar.{ending}"), []
    for name in ("a.txt", "b.txt"):
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            add(archive, name, content=b"A.")
        parts.append(content.getvalue()[:1024])  # Without an end.
    later = pack(parts[1] + bytes(10240))
    packed.write_bytes(pack(parts[0]) + later)
    assert split(packed) == ["A.", "", "A.", "", ""]
    for damaged in (b"x" + later[1:], later[:5], later[:-3]):
        packed.write_bytes(pack(parts[0]) + damaged)
        book.with_name("out.txt").unlink(missing_ok=True)
        with refused("unpacked|damaged"):
            split(packed)
        packed.write_bytes(pack(parts[0] + bytes(10240)) + damaged)
        with refused("unpacked|damaged"):
            split(packed)


@pytest.mark.parametrize("content", [bytes(500), b"x" * 3000, b"x x\n" * 999])
def test_what_is_no_prose_is_refused(book, monkeypatch, content):
    """In bounded memory, however much of it a small archive holds."""
    monkeypatch.setattr(split_sentences.prose, "MAX_LINE_BYTES", 1000)
    packed = book.with_name("books.tar.gz")
    with tarfile.open(packed, "w:gz") as archive:
        add(archive, "a.txt", content=b"A.\n" + content)
    name = f"{packed}/a.txt"
    message = f"{name}(`: line 2 is (not text|longer)| has a paragraph of more)"
    with refused(message):
        split(packed)
    assert not book.with_name("out.txt").exists()


def test_processes_do_not_change_the_result(book, monkeypatch):
    monkeypatch.setattr(split_sentences, "PARAGRAPHS_AT_ONCE", 3)
    book.write_text("\n\n".join(f"No {i}. Yes {i}." for i in range(10)))
    assert split(book, num_processes=2) == split(book, num_processes=1)


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_told(book, monkeypatch):
    monkeypatch.setattr(split_sentences, "_split_batch", die)
    with refused("SIGKILL.*memory"):
        split(book, num_processes=2)
    assert not book.with_name("out.txt").exists()


def test_script_reads_standard_input(book, tmp_path):
    with open(book, "rb") as stream:
        python(
            "data_prep/split_sentences.py",
            "--input_file=-",
            f"--output_file={tmp_path}/new/out",
            stdin=stream,
        )
    lines = (tmp_path / "new" / "out").read_text().splitlines()
    assert lines == [*SENTENCES, ""]


DAMAGED = [
    (name, content, "is damaged or|cannot be unpacked")
    for name in ("a.xz", "a.txt.gz", "a.tar.xz", "a.tar.gz")
    for content in (b"this is not packed", b"")
]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a", b"\n \n", "holds no text"),
        ("a", b"tea\ncaf\xe9\n", "a`: line 2 is not UTF-8: byte 4 .* 0xe9"),
        *DAMAGED,
    ],
)
def test_text_that_cannot_be_used_writes_nothing(
    name, content, message, tmp_path
):
    (tmp_path / name).write_bytes(content)
    with refused(message) as found:
        split(tmp_path / name)
    assert "\n" not in str(found.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    packed = split_sentences.Options(str(tmp_path / name), "o.txt.gz")
    with refused("plain text"):
        split_sentences.run(packed)
