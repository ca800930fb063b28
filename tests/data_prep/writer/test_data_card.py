import pathlib

from albert_tf.data import manifests
from tests.data_prep import writing


def test_what_is_too_short_is_counted(base, tmp_path):
    text = "it\n\nwe\n\nit rains we stay at home .\nwe read old books .\n"
    (tmp_path / "c").write_text(text)
    writing.run(base, input_file=str(tmp_path / "c"), short_seq_prob=0.0)
    manifest = manifests.find(base.output_file)
    assert manifest.corpus["documents"] == 3
    assert manifest.corpus["unused_documents"] == 2 * base.dupe_factor
    assert manifest.corpus["unused_chunks"] == 2 * base.dupe_factor
    card = pathlib.Path(f"{base.output_file}.card.md").read_text()
    assert "2.0 documents that gave no instance, 2.0 chunks left out" in card


def test_bad_lines_are_in_the_card(base, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"it rains\n\xe9\nwe stay\n")
    writing.run(base, on_bad_line="skip")
    card = pathlib.Path(f"{base.output_file}.card.md").read_text()
    assert "- bad lines: 1 skipped, 0 replaced" in card


def test_words_of_text_without_spaces_are_in_the_card(base, tmp_path):
    writing.run(base)
    card = pathlib.Path(f"{base.output_file}.card.md").read_text()
    assert "- words by the rule english\n- unknown pieces: 0.000 %" in (
        card.replace("%", " %")
    )
    (tmp_path / "zh").write_text("今天 it rains 天\nwe stay at home\n\n" * 20)
    output = str(tmp_path / "zh.tfrecord")
    writing.run(base, input_file=str(tmp_path / "zh"), output_file=output)
    card = pathlib.Path(f"{output}.card.md").read_text()
    assert "words by the rule marker; 13.6% of the letters are of" in card


def test_duplicates_are_in_the_card(base, tmp_path):
    (tmp_path / "b.txt").write_text((tmp_path / "a.txt").read_text())
    writing.run(base, drop_duplicates=True)
    card = pathlib.Path(f"{base.output_file}.card.md").read_text()
    assert "- documents: 24 with " in card
    assert ", 12 left out as duplicates" in card
