import dataclasses
import pathlib
import subprocess
import sys

from albert_tf.data import layouts, manifests
from albert_tf.text import tokenization
from data_prep import inspect_records as inspect
from data_prep import make_word_embeddings
from tests import record_files
from tests.albert_tf.data.small_records import MANIFEST
from tests.conftest import FIXTURES, ROOT, refused
from tests.data_prep import writing
from tests.data_prep.one_record import LAYOUT, VALUES, changed_at

ORIGINAL = FIXTURES / "original_tfrecord" / "original.tfrecord.gz"


def write(path, layout, *rows):
    record_files.write(path, rows, layout)
    return str(path)


def without(*names):
    layout = tuple(f for f in LAYOUT if f.name not in names)
    return layout, {feature.name: VALUES[feature.name] for feature in layout}


def show(capsys, path, **wanted):
    inspect.run(inspect.InspectOptions(input_file=str(path), **wanted))
    return capsys.readouterr().out


def test_records_of_the_original(capsys):
    text = show(capsys, ORIGINAL, num_examples=1)
    assert "[CLS] 2, [SEP] 3, [MASK] 4" in text  # Found without a vocabulary.
    assert "records: 353, well-formed: 100.00%" in text
    assert "label 1: 54.4%" in text
    assert "tokens: 81.6, 128, 128, 128, 128 (mean 123.41)" in text
    assert "masking rate, predictions of all tokens: 14.86%" in text
    assert "[MASK]: 80.12%, kept: 9.84%, another piece: 10.04%" in text
    assert "1: 53.73%, 2: 26.96%, 3: 16.06%, 4: 2.24%" in text


def test_records_of_the_original_as_text(capsys, shared_dir):
    model = str(shared_dir / "data/vocab/30k-clean.model")
    vocabulary = tokenization.VocabularyOptions(model)
    text = show(capsys, ORIGINAL, num_examples=2, vocabulary=vocabulary)
    assert text.startswith(f"record 1, {ORIGINAL}\n  tokens: 128 of 128, A: 40")
    assert "A: [CLS] the special effects and outrageous camera" in text
    assert "[rule→KEPT]" in text
    unwrapped = " ".join(text.split())
    assert "[a→MASK][las→RANDOM:courtier] [▁→KEPT][,→MASK] it" in unwrapped
    assert "record 2," in text
    assert "record 3," not in text


def test_ids_with_marks_and_both_segments(capsys, tmp_path):
    path = write(tmp_path / "a", LAYOUT, VALUES, VALUES)
    text = show(capsys, path, num_examples=1)
    assert "tokens: 9 of 10, A: 5, B: 4; predictions: 3 (33.3%)" in text
    assert "label: 1 (the segments are exchanged" in text
    assert "  A: 2 11 [12→MASK] [13→KEPT] 3\n" in text
    assert "  B: 21 [20→RANDOM:22] 23 3\n" in text


def test_records_without_masks(capsys, tmp_path):
    masks = [name for name in VALUES if name.startswith("masked")]
    layout, values = without(*masks)
    text = show(capsys, write(tmp_path / "a", layout, values))
    assert "predictions: none in the record" in text
    assert "records: 1, well-formed: 100.00%" in text
    assert "masking rate" not in text
    path = write(tmp_path / "b", *without("token_boundary"))
    text = show(capsys, path)
    assert "masking rate" in text and "runs of" not in text


def test_other_records_are_shown_as_numbers(capsys, tmp_path):
    layout = layouts.classification_layout(30, regression=True)
    values = {
        "input_ids": [2, 9, 3] + [0] * 27,
        "input_mask": [1] * 3 + [0] * 27,
        "segment_ids": [0] * 30,
        "label_ids": 2.5,
        "is_real_example": 1,
    }
    path = write(tmp_path / "a", layout, values, values)
    text = show(capsys, path, num_examples=1)
    assert "    text: 2 9 3\n" in text and "record 2" not in text
    assert "records: 2, not for pretraining" in text


def test_without_statistics_reading_stops(capsys, tmp_path):
    path = write(tmp_path / "a", LAYOUT, VALUES)
    (tmp_path / "b").write_bytes(b"never opened")
    text = show(
        capsys, f"{path},{tmp_path}/b", num_examples=1, statistics=False
    )
    assert "record 1" in text
    assert "well-formed" not in text


def test_files_of_two_layouts_are_refused(tmp_path):
    write(tmp_path / "a", LAYOUT, VALUES)
    write(tmp_path / "b", *without("token_boundary"))
    wanted = inspect.InspectOptions(input_file=f"{tmp_path}/*")
    with refused("/b has another layout"):
        inspect.run(wanted)


def test_records_that_were_cut_between_two_are_refused(tmp_path):
    """Nothing but the manifest says that some are missing."""
    path = write(tmp_path / "a.tfrecord", LAYOUT, VALUES, VALUES)
    whole = pathlib.Path(path).read_bytes()
    manifest = dataclasses.replace(MANIFEST, shard_bytes=(len(whole),))
    manifests.write([path], manifest)
    inspect.run(inspect.InspectOptions(input_file=path))
    pathlib.Path(path).write_bytes(whole[: len(whole) // 2])
    with refused("its manifest says"):
        inspect.run(inspect.InspectOptions(input_file=path))
    embeddings = make_word_embeddings.WordEmbeddingsOptions(
        input_file=path, albert_config_file="c", output_file="o"
    )
    with refused("its manifest says"):
        make_word_embeddings.run(embeddings)


def test_another_vocabulary_is_refused(tmp_path, tiny_vocab):
    change = changed_at("input_ids", 1, 400)
    path = write(tmp_path / "a", LAYOUT, {**VALUES, **change})
    wanted = inspect.InspectOptions(
        input_file=path, vocabulary=tokenization.VocabularyOptions(tiny_vocab)
    )
    with refused("has 400 pieces; .*0 to 400"):
        inspect.run(wanted)


def test_a_pattern_passes_over_what_stands_beside_records(capsys, tmp_path):
    for name in ("a", "b"):
        write(tmp_path / f"{name}.tfrecord", LAYOUT, VALUES)
    for ending in (".manifest.json", ".card.md", ".card.png", ".partial"):
        content = '{"other": 1}' if "json" in ending else "no record"
        (tmp_path / f"a.tfrecord{ending}").write_text(content)
    text = show(capsys, f"{tmp_path}/*.tfrecord*")
    assert f"record 2, {tmp_path}/b" in text and "records: 2," in text


def test_a_reader_that_ends_early_is_no_error():
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "data_prep.inspect_records"),
            *(f"--input_file={ORIGINAL}", "--num_examples=300"),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    assert "Broken pipe" not in process.stderr.read()
    assert process.wait() == 0
    process.stderr.close()


def test_records_of_no_sentence_objective(base, capsys):
    path = writing.run(base, sentence_objective="none").output_file
    shown = show(capsys, path)
    assert "label: 0 (none: a single segment)" in shown
    assert "well-formed: 100.00%" in shown
