"""The Beam pipeline against the local writer, byte by byte.

Beam has an environment of its own, without TensorFlow. `make test-beam` runs
the tests there that have its mark. So nothing here comes from conftest.py.
"""

import gzip
import json
import pathlib
import random
import subprocess
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from albert_tf.common import errors, options
from data_prep import (
    beam_pretraining_data,
    create_pretraining_data,
    train_sentencepiece,
    train_wordpiece,
)
from data_prep.writer import assemble, instances, writer_options

ROOT = pathlib.Path(beam_pretraining_data.__file__).parents[1]
WORDS = "it rains we stay at home and read old books by the fire".split()
NAME = "a.tfrecord"
# Beam's own, and that of what it imports.
pytestmark = pytest.mark.filterwarnings("ignore")


def write_corpus(path, seed, num_documents):
    rng = random.Random(seed)
    with open(path, "w") as stream:
        for _ in range(num_documents):
            for _ in range(rng.randint(1, 10)):
                words = rng.choices(WORDS, k=rng.randint(3, 9))
                stream.write(" ".join(words) + " .\n")
            stream.write("\n")
        # A document that all files share.
        stream.write("the same words everywhere .\nit rains at home .\n\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five files, one of them packed and one without text; a vocabulary."""
    folder = tmp_path_factory.mktemp("corpus")
    for number, size in enumerate((20, 1, 60, 8)):
        write_corpus(folder / f"{number}.txt", number, size)
    (folder / "1a.txt").write_text("\n \n")
    text = (folder / "2.txt").read_bytes()
    (folder / "4.txt.gz").write_bytes(gzip.compress(text + b"some more .\n"))
    (folder / "vocab.txt").write_bytes(text * 3)
    train_sentencepiece.run(
        train_sentencepiece.Options(
            input_file=str(folder / "vocab.txt"),
            output_prefix=str(folder / "tiny"),
            vocab_size=38,
        )
    )
    return folder


@pytest.fixture
def base(folder):
    """Options that work, without `output_file`."""
    return {
        "input_file": f"{folder}/[0-9]*.txt*",
        "spm_model_file": f"{folder}/tiny.model",
        "dupe_factor": 3,
        "num_shards": 3,
        "max_seq_length": 32,
        "max_predictions_per_seq": 5,
    }


def make_options(output, values):
    return options.from_dict(
        writer_options.CreatePretrainingDataOptions,
        {"output_file": str(output), **values},
    )


def run_local(folder, values):
    wanted = make_options(folder / "local" / NAME, {**values, "num_workers": 1})
    create_pretraining_data.run(wanted)
    return folder / "local"


def run_beam(folder, values, beam_args=""):
    wanted = make_options(folder / "beam" / NAME, values)
    beam_pretraining_data.run(
        beam_pretraining_data.BeamOptions(wanted, beam_args=beam_args)
    )
    return folder / "beam"


def read_shards(folder):
    manifest = read_manifest(folder)
    return {name: (folder / name).read_bytes() for name in manifest["shards"]}


def read_manifest(folder):
    """The manifest, without what may differ."""
    (path,) = folder.glob("*.manifest.json")
    manifest = json.loads(path.read_text())
    for name in ("output_file", "num_workers"):
        del manifest["options"][name]
    manifest["versions"].pop("apache_beam", None)
    del manifest["crc32c"]  # Of all of it.
    return manifest


def cut_records(content):
    """The records of a TFRecord file: length, checksum, content, checksum."""
    found = []
    while content:
        end = 16 + int.from_bytes(content[:8], "little")
        found.append(content[:end])
        content = content[end:]
    return found


@pytest.fixture
def small_steps(monkeypatch):
    """Several blocks a file, several batches a block, several parts."""
    monkeypatch.setattr(beam_pretraining_data, "_BLOCK_BYTES", 700)
    monkeypatch.setattr(beam_pretraining_data, "_UNIT_TOKENS", 300)
    monkeypatch.setattr(beam_pretraining_data, "_PART_POSITIONS", 32 * 20)


CASES = {
    "plain": {},
    "no_duplicates": {"drop_duplicates": True},
    "random": {"single_segment_policy": "random"},
    "nsp": {"sentence_objective": "nsp"},
    "one_segment": {"sentence_objective": "none", "num_shards": None},
    "training": {"masking_time": "training"},
    "permuted": {"do_permutation": True, "random_seed": 7},
}


@pytest.mark.beam
@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_files_are_those_of_the_local_writer(base, tmp_path, changes):
    values = {**base, **changes}
    local, ours = run_local(tmp_path, values), run_beam(tmp_path, values)
    shards = read_shards(local)
    assert len(shards) == (values["num_shards"] or 1)
    assert read_shards(ours) == shards
    assert read_manifest(ours) == read_manifest(local)
    assert not [p for p in ours.iterdir() if p.name.endswith(".partial")]
    records_of = [cut_records(content) for content in shards.values()]
    assert min(map(len, records_of)) > 50


@pytest.mark.beam
@pytest.mark.parametrize(
    "beam_args",
    [
        "--direct_num_workers=1",
        "--direct_num_workers=3 --direct_running_mode=multi_threading",
        "--direct_num_workers=2 --direct_running_mode=multi_processing",
    ],
)
def test_workers_and_sizes_of_steps_do_not_matter(base, tmp_path, beam_args):
    local = run_local(tmp_path, base)
    assert read_shards(run_beam(tmp_path, base, beam_args)) == read_shards(
        local
    )


@pytest.mark.beam
@pytest.mark.parametrize(
    "beam_args",
    ["", "--direct_num_workers=2 --direct_running_mode=multi_processing"],
)
@pytest.mark.usefixtures("small_steps")
def test_words_of_jieba_are_those_of_the_local_writer(tmp_path, beam_args):
    rng = random.Random(5)
    words = "今天 天气 很 好 我们 公园 散步 觉得 怎么样".split()
    lines = ["".join(rng.choices(words, k=8)) + "。" for _ in range(300)]
    text = "".join(line + "\n" * rng.choice([1, 1, 2]) for line in lines)
    (tmp_path / "zh.txt").write_text(text)
    train_wordpiece.run(
        train_wordpiece.Options(
            input_file=str(tmp_path / "zh.txt"),
            output_prefix=str(tmp_path / "zh-vocab"),
            vocab_size=100,
            unit="character",
        )
    )
    values = {
        "input_file": str(tmp_path / "zh.txt"),
        "vocab_file": str(tmp_path / "zh-vocab.txt"),
        "word_segmenter": "jieba",
        "dupe_factor": 2,
        "max_seq_length": 32,
        "max_predictions_per_seq": 5,
    }
    local = run_local(tmp_path, values)
    ours = run_beam(tmp_path, values, beam_args)
    assert read_shards(ours) == read_shards(local)
    manifest = read_manifest(ours)
    assert manifest == read_manifest(local)
    assert manifest["word_start_rule"] == "jieba"
    assert manifest["versions"]["jieba"]
    without = run_local(tmp_path / "none", values | {"word_segmenter": "none"})
    assert read_shards(without) != read_shards(local)


@pytest.mark.beam
@pytest.mark.usefixtures("small_steps")
def test_records_of_tables_are_those_of_the_local_writer(base, tmp_path):
    texts = ["it rains .", "we stay at home and read .\nit rains .", "it"] * 40
    table = pyarrow.table({"text": texts})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    values = base | {
        "input_file": str(tmp_path / "a.parquet"),
        "input_format": "parquet",
    }
    local, ours = run_local(tmp_path, values), run_beam(tmp_path, values)
    assert read_shards(ours) == read_shards(local)
    assert read_manifest(ours) == read_manifest(local)


@pytest.mark.beam
def test_packed_shards_are_those_of_the_local_writer(base, tmp_path):
    create_pretraining_data.run(
        make_options(tmp_path / "local" / f"{NAME}.gz", base)
    )
    run_options(make_options(tmp_path / "beam" / f"{NAME}.gz", base))
    shards = read_shards(tmp_path / "local")
    assert read_shards(tmp_path / "beam") == shards
    assert all(name.endswith(".gz") for name in shards)


def run_options(wanted):
    beam_pretraining_data.run(beam_pretraining_data.BeamOptions(wanted))


@pytest.mark.beam
def test_command_line(base, tmp_path):
    local = run_local(tmp_path, base)
    arguments = [f"--{k}={v}" for k, v in base.items()]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "data_prep.beam_pretraining_data"),
            *arguments,
            f"--output_file={tmp_path}/beam/{NAME}",
            "--runner=DirectRunner",
            "--beam_args=--direct_num_workers=1 --job_name='two words'",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "written: " in done.stderr
    assert read_shards(tmp_path / "beam") == read_shards(local)


@pytest.mark.beam
@pytest.mark.parametrize(
    "changes, message",
    [
        ({"num_shards": 2000}, "names 2000 files, but the text gives on"),
        ({"input_file": "EMPTY"}, "EMPTY holds no usable document"),
        ({"input_file": "BAD"}, r"line 1 is not UTF-8: .*=skip\.$"),
    ],
)
def test_mistakes_found_by_workers(base, tmp_path, changes, message):
    (tmp_path / "EMPTY").write_text("\n\n")
    (tmp_path / "BAD").write_bytes(b"caf\xe9\n")
    values = {**base, **changes}
    values["input_file"] = str(tmp_path / values["input_file"])
    with pytest.raises(errors.UserError, match=message):
        run_beam(tmp_path, values)
    assert not list((tmp_path / "beam").iterdir())


@pytest.mark.beam
def test_records_of_other_options_are_protected(base, tmp_path):
    folder = run_beam(tmp_path, base)
    before = read_shards(folder)
    with pytest.raises(errors.UserError, match="--random_seed was 12345"):
        run_beam(tmp_path, {**base, "random_seed": 1})
    assert read_shards(folder) == before
    run_beam(tmp_path, {**base, "random_seed": 1, "overwrite": True})
    assert read_shards(folder) != before


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"num_workers": 2}, "--num_workers=2 is an option of the local"),
        ({"input_file": "-"}, "--input_file=- is standard input"),
    ],
)
def test_options_of_the_local_writer_only(base, tmp_path, changes, message):
    wanted = make_options(tmp_path / NAME, {**base, **changes})
    with pytest.raises(errors.UserError, match=message):
        beam_pretraining_data.BeamOptions(wanted)


def test_missing_beam_says_how_to_install_it(base, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    wanted = make_options(tmp_path / NAME, base)
    with pytest.raises(
        errors.UserError, match="`runner` needs apache_beam.*requi"
    ):
        run_options(wanted)


def test_directory_numbers_the_documents_of_all_blocks(base, tmp_path):
    facts = {"letters": 9, "letters_not_a_to_z": 0, "letter_marks": 0}
    facts |= {"tokens": 9, "unknown_pieces": 0}
    places = [((1, 0), 5), ((0, 1), 2), ((0, 10), 0), ((0, 2), 3)]
    recipe = beam_pretraining_data.Recipe(
        make_options(tmp_path / NAME, base), ()
    )
    directory = beam_pretraining_data.make_directory(
        [(*place, facts) for place in places], recipe
    )
    assert directory.rule == "english"
    assert directory.places == [(0, 1), (0, 2), (0, 10), (1, 0)]
    assert directory.ends == [2, 5, 5, 10]
    assert len(directory) == 10


def test_records_of_a_part_go_to_the_files_they_belong_to():
    divide = assemble.divide
    assert list(divide(3, 4, [0, 5, 10])) == [(0, 0, 2), (1, 2, 4)]
    assert list(divide(5, 5, [0, 5, 10])) == [(1, 0, 5)]
    assert list(divide(0, 3, [0, 1, 2, 3])) == [
        (0, 0, 1),
        (1, 1, 2),
        (2, 2, 3),
    ]


def test_cut_and_merged_batches_are_the_same():
    rng = np.random.default_rng(3)
    rows = np.zeros(50, instances.ROW)
    rows["key"] = np.sort(rng.integers(0, 2**64, 50, np.uint64))
    rows["first"], rows["second"] = rng.integers(1, 5, [2, 50])
    lengths = rows["first"].astype(int) + rows["second"]
    rows["begin"] = np.cumsum(lengths) - lengths
    tokens = rng.integers(0, 99, lengths.sum()).astype(np.uint16)
    plan = beam_pretraining_data.Plan([0] * 8, [0, 50])
    cut = dict(beam_pretraining_data.cut_batch((rows, tokens), plan))
    assert len(cut) > 5
    for part, (some, _) in cut.items():
        assert set((some["key"] >> np.uint64(61)).tolist()) == {part}
        assert some["begin"][0] == 0
    again = beam_pretraining_data.merge_batches(reversed(cut.values()))
    np.testing.assert_array_equal(again[0], rows)
    np.testing.assert_array_equal(again[1], tokens)
