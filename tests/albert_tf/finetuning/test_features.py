"""Feature files: reused when nothing changed, made anew when something did."""

import contextlib
import json
import os
import pathlib
import re

import numpy as np
import pytest

from albert_tf.common import files, parallel
from albert_tf.data import inputs
from albert_tf.finetuning import features, packing
from albert_tf.text import tokenization
from data_prep import train_sentencepiece
from tests.albert_tf.tasks.glue import small_tasks
from tests.conftest import refused

ROWS = (("It rains.", "It is wet.", "entailment"), ("We stay.", "We go.", None))


def write_rte(folder, rows=ROWS):
    folder.mkdir(exist_ok=True)
    lines = ["index\tsentence1\tsentence2\tlabel"]
    for index, (first, second, label) in enumerate(rows):
        lines.append(f"{index}\t{first}\t{second}\t{label or 'not_entailment'}")
    (folder / "dev.tsv").write_text("\n".join(lines) + "\n")
    return str(folder / "dev.tsv")


def make(folder, tokenizer, rows=ROWS, max_seq_length=16, split="dev"):
    """Make the features of some rows; returns the path."""
    source = write_rte(folder / "data", rows)
    task = small_tasks.make("rte", tokenizer, max_seq_length)
    examples = task.read(source, split)
    facts = features.describe(task, features.content_sha256(source), split)
    made = features.open_or_make(task, facts, str(folder / "cache"), examples)
    assert made.num_records == len(rows)
    return made.path


def records(path, tokenizer):
    """The records of a file of two, by name."""
    layout = small_tasks.make("rte", tokenizer, 16).layout("dev")
    (batch,) = inputs.evaluation_dataset([path], layout, 2)
    return {name: value.numpy() for name, value in batch.items()}


def names(folder):
    return sorted(os.listdir(folder / "cache"))


@pytest.fixture
def other_tokenizer(tmp_path, story_text):
    folder = tmp_path / "other vocabulary"
    folder.mkdir()
    (folder / "text.txt").write_text(story_text[0])
    train_sentencepiece.run(
        train_sentencepiece.Options(
            input_file=str(folder / "text.txt"),
            output_prefix=str(folder / "other"),
            vocab_size=120,
        )
    )
    return tokenization.Tokenizer(str(folder / "other.model"))


def test_file_holds_the_features_in_order(tmp_path, tiny_tokenizer):
    path = make(tmp_path, tiny_tokenizer)
    task = small_tasks.make("rte", tiny_tokenizer, 16)
    batch = records(path, tiny_tokenizer)
    examples = task.read(str(tmp_path / "data/dev.tsv"), "dev")
    (expected,) = task.featurize(examples, "dev")
    np.testing.assert_equal(batch, expected)


def test_training_examples_are_shuffled_once_for_all(
    tmp_path, tiny_tokenizer, monkeypatch
):
    monkeypatch.setattr(features, "_BLOCK", 16)
    rows = [("It rains. " * n, "Yes.", None) for n in range(50)]
    length, ids = 512, {}
    for split in ("dev", "train"):
        path = make(tmp_path, tiny_tokenizer, rows, length, split)
        layout = small_tasks.make("rte", tiny_tokenizer, length).layout(split)
        (batch,) = inputs.evaluation_dataset([path], layout, 50)
        ids[split] = [tuple(row) for row in batch["input_ids"].numpy()]
    assert sorted(ids["dev"]) == sorted(ids["train"])
    moved = [a != b for a, b in zip(ids["dev"], ids["train"], strict=True)]
    assert sum(moved) > 40
    first = files.read_bytes(path)
    os.remove(path)
    again = make(tmp_path, tiny_tokenizer, rows, length, "train")
    assert files.read_bytes(again) == first
    # The same from a file in the order of the data, of several blocks.
    source = str(tmp_path / "data/dev.tsv")
    task = small_tasks.make("rte", tiny_tokenizer, length)
    examples = task.read(source, "train")
    offline = features.write(
        str(tmp_path / "x/own.tfrecord"),
        features.encode(task, examples, "train", with_padding=True),
        40,  # As if some had several records.
        features.describe(task, features.content_sha256(source), "train"),
    )
    assert opened(offline.path, task, split="train") == offline
    os.remove(path)
    for _ in range(2):
        made = features.shuffle(offline, task, str(tmp_path / "cache"))
        assert made == features.FeatureFile(path, 50)
        assert files.read_bytes(path) == first
        facts = json.loads(files.read_bytes(f"{path}.json"))
        assert (facts["num_examples"], facts["num_records"]) == (40, 50)
    pathlib.Path(path).write_bytes(first + first)
    message = f"{path} is damaged: it has 100 records of 50. Remove it and"
    with refused(message):
        features.shuffle(offline, task, str(tmp_path / "cache"))
    os.remove(path)
    whole = files.read_bytes(offline.path)
    for content, count in ((whole[:-1], 49), (whole + whole, 100)):
        pathlib.Path(offline.path).write_bytes(content)
        message = f"own.tfrecord is damaged after {count} whole records: "
        with refused(message):
            features.shuffle(offline, task, str(tmp_path / "cache"))
    pathlib.Path(offline.path).write_bytes(whole)
    known = max(max(row) for row in ids["train"])
    monkeypatch.setattr(type(task.tokenizer), "vocab_size", known)
    message = f"own.tfrecord is damaged .* input_ids has the number {known}"
    with refused(message):
        features.shuffle(offline, task, str(tmp_path / "cache"))


WORDS = "it rains we stay at home and read old books by the fire".split()


def many(count):
    return [
        packing.TextExample(
            str(n), (" ".join(WORDS[n % 9 :]), WORDS[n % 13]), n % 2
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("num_workers", [2, 5])
def test_records_do_not_depend_on_the_number_of_processes(
    tiny_tokenizer, num_workers
):
    task = small_tasks.make("rte", tiny_tokenizer, 16)
    found = [
        [
            r
            for block in features.encode(task, many(700), "dev", n)
            for r in block
        ]
        for n in (1, num_workers)
    ]
    assert len(found[0]) == 700
    assert found[0] == found[1]
    begins = []
    task.renumber = lambda block, first: begins.append(first) or block
    featurize = task.featurize  # Two records for each example.
    task.featurize = lambda *given: [*featurize(*given), *featurize(*given)]
    twice = [*features.encode(task, many(700), "dev", 1)]
    assert [len(block) for block in twice] == [512, 512, 376]
    assert begins == [0, 512, 1024]


@pytest.mark.parametrize(
    "examples, cores, given, expected",
    [(100, 4, 0, 1), (16384, 4, 0, 2), (90000, 4, 0, 4), (300, 1, 5, 2)],
)
def test_processes_are_started_where_there_is_work_for_them(
    tiny_tokenizer, monkeypatch, examples, cores, given, expected
):
    asked = []

    def workers(num_workers, shared):
        asked.append(num_workers)
        return contextlib.nullcontext(lambda *_: iter(()))

    monkeypatch.setattr(parallel, "resolve", lambda _: cores)
    monkeypatch.setattr(parallel, "workers", workers)
    task = small_tasks.make("rte", tiny_tokenizer, 16)
    list(features.encode(task, [None] * examples, "dev", given))
    assert asked == [expected]


def test_cuts_of_all_processes_are_told_once(tiny_tokenizer, caplog):
    task = small_tasks.make("rte", tiny_tokenizer, 4)
    list(features.encode(task, many(600), "dev", 2))
    (line,) = caplog.messages
    assert line == (
        "600 examples are longer than `max_seq_length=4` and cut. "
        "(0, 1, 2, ...)"
    )


def test_name_says_task_and_split(tmp_path, tiny_tokenizer):
    path = make(tmp_path, tiny_tokenizer)
    name = os.path.basename(path)
    assert re.fullmatch(r"rte-dev-[0-9a-f]{16}\.tfrecord", name)
    assert names(tmp_path) == [name, f"{name}.json"]
    facts = json.loads(files.read_bytes(f"{path}.json"))
    assert (facts["num_examples"], facts["num_records"]) == (2, 2)
    task = small_tasks.make("rte", tiny_tokenizer, 16)
    assert facts["layout"] == repr(task.layout("dev"))


def test_second_call_reuses_the_file(tmp_path, tiny_tokenizer):
    path = make(tmp_path, tiny_tokenizer)
    os.utime(path, ns=(1, 1))
    before = os.stat(path)
    assert make(tmp_path, tiny_tokenizer) == path
    after = os.stat(path)
    assert (after.st_mtime_ns, after.st_ino) == (1, before.st_ino)


def test_broken_off_writing_leaves_no_file(
    tmp_path, tiny_tokenizer, monkeypatch
):
    monkeypatch.setattr(features.tfrecord, "frame_batch", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        make(tmp_path, tiny_tokenizer)
    assert names(tmp_path) == []


def test_file_without_its_facts_is_made_again(tmp_path, tiny_tokenizer):
    path = make(tmp_path, tiny_tokenizer)
    content = files.read_bytes(path)
    os.remove(f"{path}.json")
    with open(path, "wb") as stream:
        stream.write(content[:10])
    assert make(tmp_path, tiny_tokenizer) == path
    assert files.read_bytes(path) == content


def test_whatever_records_follow_from_makes_another_file(
    tmp_path, tiny_vocab, tiny_tokenizer, other_tokenizer
):
    changed_rows = [
        ("It snows.", "It is wet.", "entailment"),
        ("It rains.", "It is white.", "entailment"),
        ("It rains.", "It is wet.", "not_entailment"),
        # The border between the texts moves, their letters stay.
        ("It rains. It", "is wet.", "entailment"),
    ]
    paths = [
        make(tmp_path, tiny_tokenizer),
        *(make(tmp_path, tiny_tokenizer, [r, ROWS[1]]) for r in changed_rows),
        make(tmp_path, tiny_tokenizer, ROWS[::-1]),
        make(tmp_path, tiny_tokenizer, ROWS[:1]),
        make(tmp_path, tiny_tokenizer, max_seq_length=17),
        make(tmp_path, tiny_tokenizer, split="train"),
        make(tmp_path, tokenization.Tokenizer(tiny_vocab, False)),
        make(tmp_path, other_tokenizer),
    ]
    # A teacher's outputs; these only turn the records round.
    task = small_tasks.make("rte", tiny_tokenizer, 16)
    source = str(tmp_path / "data/dev.tsv")
    folder, examples = str(tmp_path / "cache"), task.read(source, "dev")
    content = features.content_sha256(source)
    facts = {**features.describe(task, content, "dev"), "added": "a teacher's"}
    made = features.open_or_make(
        task,
        facts,
        folder,
        examples,
        lambda batches: [batch[::-1] for batch in batches],
    )
    paths.append(made.path)
    plain = records(paths[0], tiny_tokenizer)
    turned = records(made.path, tiny_tokenizer)
    np.testing.assert_equal(turned["input_ids"], plain["input_ids"][::-1])
    assert len(set(paths)) == len(paths)


def test_same_data_elsewhere_is_the_same(tmp_path, tiny_tokenizer):
    path = make(tmp_path, tiny_tokenizer)
    (tmp_path / "data").rename(tmp_path / "moved")
    assert make(tmp_path, tiny_tokenizer) == path


def test_fingerprint_of_a_folder_follows_names_and_contents(tmp_path):
    def key():
        return features.content_sha256(str(tmp_path))

    (tmp_path / "middle").mkdir()
    (tmp_path / "middle/1.txt").write_text("{}")
    keys = [key()]
    (tmp_path / "middle/1.txt").rename(tmp_path / "middle/2.txt")
    keys.append(key())
    (tmp_path / "middle/2.txt").write_text("{} ")
    keys.append(key())
    (tmp_path / "middle").rename(tmp_path / "high")
    keys.append(key())
    assert len(set(keys)) == 4
    (tmp_path / "high/.DS_Store").write_text("x")
    (tmp_path / ".trash").mkdir()
    assert key() == keys[-1]
    (tmp_path / "empty").mkdir()
    assert key() != keys[-1]


# Files of data_prep.create_finetuning_data.


def opened(path, task, source=None, split="dev"):
    content = source and features.content_sha256(source)
    return features.open_prepared(
        task, path, content, split, "train_feature_file"
    )


def test_fitting_file_is_opened(tmp_path, tiny_tokenizer):
    path = make(tmp_path, tiny_tokenizer)
    task = small_tasks.make("rte", tiny_tokenizer, 16)
    source = str(tmp_path / "data/dev.tsv")
    facts = json.loads(files.read_bytes(f"{path}.json"))
    del facts["options"]["keep_accents"]  # As earlier versions wrote it.
    pathlib.Path(f"{path}.json").write_text(json.dumps(facts))
    assert opened(path, task, source) == features.FeatureFile(path, 2)
    os.remove(source)
    assert opened(path, task) == features.FeatureFile(path, 2)


@pytest.mark.parametrize(
    "change, line",
    [
        ({"max_seq_length": 20}, "max_seq_length was 16, is now 20"),
        ({"name": "wnli"}, "task_name was 'rte', is now 'wnli'"),
        ({"lower": False}, "do_lower_case was True, is now False"),
        ({"other": True}, "vocab_sha256 was .*, is now "),
    ],
)
def test_file_of_other_options_is_refused(
    tmp_path, tiny_vocab, other_tokenizer, change, line
):
    path = make(tmp_path, tokenization.Tokenizer(tiny_vocab))
    tokenizer = other_tokenizer
    if "other" not in change:
        tokenizer = tokenization.Tokenizer(
            tiny_vocab, change.get("lower", True)
        )
    task = small_tasks.make(
        change.get("name", "rte"), tokenizer, change.get("max_seq_length", 16)
    )
    with refused(f"(?s)`train_feature_file=.*{line}.*again"):
        opened(path, task)


def test_file_of_other_data_is_refused(tmp_path, tiny_tokenizer):
    path = make(tmp_path, tiny_tokenizer)
    source = write_rte(tmp_path / "other", ROWS[:1])
    task = small_tasks.make("rte", tiny_tokenizer, 16)
    with refused("content_sha256"):
        opened(path, task, source)
    with refused("split was 'dev', is now 'train'"):
        opened(path, task, split="train")


def test_file_of_unknown_origin_is_refused(tmp_path, tiny_tokenizer):
    path = make(tmp_path, tiny_tokenizer)
    task = small_tasks.make("rte", tiny_tokenizer, 16)
    for content in (
        b"no JSON",
        b"[]",
        b'{"num_records": 2.5}',
        b'{"num_records": 2, "options": []}',
    ):
        with open(f"{path}.json", "wb") as stream:
            stream.write(content)
        with refused("it is not known"):
            opened(path, task)
    with refused("`train_feature_file=nowhere"):
        opened("nowhere", task)
