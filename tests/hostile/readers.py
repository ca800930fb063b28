"""Every reader of files, one line each: what it reads, and how.

A reader gets a copy of a file, or of a folder in which one file is damaged, and
reads it to its end.
"""

import pathlib
import shutil
from collections.abc import Callable
from typing import NamedTuple

from albert_tf.common import scores
from albert_tf.data import record_check, tfrecord
from albert_tf.finetuning import (
    base,
    features,
    race,
    saved_outputs,
)
from albert_tf.finetuning.glue import glue, glue_tasks
from albert_tf.finetuning.squad import squad_data
from albert_tf.model import modeling
from albert_tf.model.checkpoints import checkpoint_reader, huggingface
from albert_tf.serving.client import ask
from albert_tf.text import normalization, tokenization, wordpiece
from albert_tf.training import run_card, run_folder
from data_prep import (
    extract_passages,
    inspect_records,
    make_demo_data,
    split_sentences,
)
from data_prep.vocabulary import text
from data_prep.writer import corpus, decoding
from tests.hostile import valid_inputs

Path = pathlib.Path


class Reader(NamedTuple):
    """A reader.

    Attributes:
        source: File or folder of the inputs that is copied.
        damaged: The file in that folder that is damaged; empty for a file.
        read: What reads the copy.
        is_text: Whether a damage of JSON or text says something about it.
    """

    source: str
    damaged: str
    read: Callable[[Path], object]
    is_text: bool = True


def corpus_of(path: Path, **values) -> None:
    """Read a corpus as the writer does."""
    settings = corpus.CorpusOptions(str(path), **values)
    reader = corpus.CorpusReader(corpus.find_files(settings), settings)
    for block in reader.read_blocks():
        decoding.decode_lines(block, settings)


def json_corpus(path: Path) -> None:
    corpus_of(path, input_format="jsonl", split_sentences=True)


def sentences(path: Path) -> None:
    settings = split_sentences.Options(
        str(path),
        str(path.with_name("sentences.out")),
        num_processes=1,
        overwrite=True,
    )
    split_sentences.run(settings)


def vocabulary_text(path: Path) -> None:
    found = text.Sentences(text.read_lines([str(path)]), str.strip)
    for _ in found:
        pass
    if found.failure:
        raise found.failure


def pretraining_records(path: Path) -> None:
    """Check records as training does, then read them all."""
    record_check.check_records(
        [str(path)],
        record_check.Expected(
            valid_inputs.LENGTH, valid_inputs.PREDICTIONS, 400
        ),
    )
    for _ in tfrecord.read_records(str(path)):
        pass


def record_folder(folder: Path) -> None:
    pretraining_records(folder / "train.tfrecord")


def inspected(path: Path) -> None:
    inspect_records.run(inspect_records.InspectOptions(str(path)))


def task(name: str, inputs_path: Path) -> base.Task:
    """A task of GLUE with a vocabulary of letters."""
    return glue.GlueTask(name, letters(inputs_path), valid_inputs.LENGTH)


def letters(folder: Path) -> wordpiece.WordPieceTokenizer:
    """The vocabulary of letters; made anew, so that it is never damaged."""
    path = folder / "letters.txt"
    if not path.exists():
        path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\n")
    return wordpiece.WordPieceTokenizer(str(path))


def glue_file(name: str, split: str) -> Callable[[Path], object]:
    """Read a split of a task."""
    return lambda path: task(name, path.parent).read(str(path), split)


def race_file(path: Path) -> object:
    race_task = race.RaceTask(
        letters(path.parent), 64, race.RaceOptions(max_qa_length=32)
    )
    return race_task.read(str(path), base.PREDICT)


def race_folder(folder: Path) -> object:
    race_task = race.RaceTask(
        letters(folder.parent), 64, race.RaceOptions(max_qa_length=32)
    )
    return race_task.read(str(folder), base.TRAIN)


def requests(path: Path) -> None:
    with open(path, "rb") as lines:
        list(ask.read(lines, str(path), {"text": 1, "text_pair": 1}))


def feature_file(folder: Path) -> None:
    """Take a feature file as training does: compare, then shuffle."""
    path = str(folder / "rte.tfrecord")
    shutil.rmtree(folder / "shuffled", ignore_errors=True)
    rte = glue.GlueTask(
        "rte",
        tokenization.Tokenizer(str(folder / "spm.model")),
        valid_inputs.LENGTH,
    )
    found = features.opened(rte, path, None, "train", "train_feature_file")
    shuffled = features.shuffled(found, rte, str(folder / "shuffled"))
    for _ in tfrecord.read_records(shuffled.path):
        pass


def normalization_file(path: Path) -> None:
    vocabulary = str(path).removesuffix(normalization.ENDING) + ".model"
    normalization.read(vocabulary, normalization.SENTENCEPIECE)


def checkpoint(folder: Path) -> None:
    found = checkpoint_reader.read(str(folder))
    found.load(found.shapes)


def hugging_face_folder(folder: Path) -> None:
    huggingface.read_weights(str(folder))
    huggingface.read_details(str(folder))


def run_log_and_card(folder: Path) -> None:
    run_card.write(str(folder))


def glue_split(name: str, split: str) -> Reader:
    """The reader of a split of GLUE, and its file in the inputs."""
    file = glue_tasks.TASKS[name].splits[split].file
    return Reader(f"glue/{file}", "", glue_file(name, split))


READERS = {
    # Corpora.
    "corpus": Reader("text.txt", "", corpus_of),
    "corpus.gz": Reader("text.txt.gz", "", corpus_of, False),
    "corpus.xz": Reader("text.txt.xz", "", corpus_of, False),
    "corpus.zst": Reader("text.txt.zst", "", corpus_of, False),
    "corpus.jsonl": Reader("text.jsonl", "", json_corpus),
    "corpus.parquet": Reader(
        "text.parquet",
        "",
        lambda p: corpus_of(p, input_format="parquet"),
        False,
    ),
    "corpus.arrow": Reader(
        "text.arrow", "", lambda p: corpus_of(p, input_format="arrow"), False
    ),
    "corpus.file.arrow": Reader(
        "text.file.arrow",
        "",
        lambda p: corpus_of(p, input_format="arrow"),
        False,
    ),
    "sentences": Reader("text.txt", "", sentences),
    "sentences.gz": Reader("text.txt.gz", "", sentences, False),
    "sentences.tar.gz": Reader("text.tar.gz", "", sentences, False),
    "vocabulary text": Reader("text.txt", "", vocabulary_text),
    # Vocabularies and architectures.
    "spm.model": Reader(
        "spm.model", "", lambda p: tokenization.Tokenizer(str(p)), False
    ),
    "spm.normalization.json": Reader(
        "spm.normalization.json", "", normalization_file
    ),
    "vocab.txt": Reader(
        "vocab.txt", "", lambda p: wordpiece.WordPieceTokenizer(str(p))
    ),
    "albert_config.json": Reader(
        "config.json",
        "",
        lambda p: modeling.AlbertConfig.from_json_file(str(p)),
    ),
    "hugging face config": Reader(
        "huggingface/config.json", "", lambda p: huggingface.read_config(str(p))
    ),
    "hugging face folder": Reader(
        "huggingface", "config.json", hugging_face_folder
    ),
    # Records.
    "records": Reader("records", "train.tfrecord", record_folder, False),
    "records alone": Reader(
        "records/train.tfrecord", "", pretraining_records, False
    ),
    "manifest": Reader(
        "records", "train.tfrecord.manifest.json", record_folder
    ),
    "inspected": Reader("records/train.tfrecord", "", inspected, False),
    "features": Reader("features", "rte.tfrecord", feature_file, False),
    "feature facts": Reader("features", "rte.tfrecord.json", feature_file),
    # Tasks.
    "cola train": glue_split("cola", "train"),
    "cola test": glue_split("cola", "test"),
    "sst-2 dev": glue_split("sst-2", "dev"),
    "mrpc test": glue_split("mrpc", "test"),
    "sts-b train": glue_split("sts-b", "train"),
    "sts-b test": glue_split("sts-b", "test"),
    "qqp train": glue_split("qqp", "train"),
    "mnli train": glue_split("mnli", "train"),
    "mnli dev": glue_split("mnli", "dev_matched"),
    "rte test": glue_split("rte", "test"),
    "ax": glue_split("ax", "ax"),
    "own pairs.tsv": Reader("pairs.tsv", "", glue_file("rte", base.PREDICT)),
    "own pairs.jsonl": Reader(
        "pairs.jsonl", "", glue_file("rte", base.PREDICT)
    ),
    "squad": Reader(
        "squad.json", "", lambda p: squad_data.read(str(p), "train_file")
    ),
    "own questions": Reader(
        "questions.jsonl", "", lambda p: squad_data.read_own(str(p))
    ),
    "squad passages": Reader(
        "squad.json", "", lambda p: list(extract_passages.read_squad(str(p)))
    ),
    "race file": Reader("race/train/high/1.txt", "", race_file),
    "race folder": Reader("race/train", "middle/1.txt", race_folder),
    "race passages": Reader(
        "race/train/high/1.txt",
        "",
        lambda p: list(extract_passages.read_race(str(p))),
    ),
    "requests.tsv": Reader("pairs.tsv", "", requests),
    "requests.jsonl": Reader("pairs.jsonl", "", requests),
    # What programs leave behind.
    "run_options.json": Reader(
        "rte", "run_options.json", lambda p: run_folder.read(str(p))
    ),
    "run's config": Reader(
        "rte", "albert_config.json", lambda p: run_folder.read(str(p))
    ),
    "metrics.jsonl": Reader("rte", "metrics.jsonl", run_log_and_card),
    "scores.json": Reader(
        "rte", "scores.json", lambda p: scores.of_best(str(p))
    ),
    "saved outputs": Reader(
        "rte",
        "dev_outputs.npz",
        lambda p: saved_outputs.load(str(p), "dev"),
        False,
    ),
    "list of checkpoints": Reader("pretrained", "checkpoint", checkpoint),
    "checkpoint.index": Reader(
        "pretrained", "model.ckpt-2.index", checkpoint, False
    ),
    "checkpoint.data": Reader(
        "pretrained", "model.ckpt-2.data-00000-of-00001", checkpoint, False
    ),
    "safetensors": Reader(
        "huggingface",
        "model.safetensors",
        lambda p: huggingface.read_weights(str(p)),
        False,
    ),
    "saved_model.pb": Reader(
        "served",
        "saved_model.pb",
        lambda p: ask.load(str(p), "serving_default"),
        False,
    ),
    "saved variables": Reader(
        "served",
        "variables/variables.index",
        lambda p: ask.load(str(p), "serving_default"),
        False,
    ),
    "demo_options.json": Reader(
        "demo",
        "demo_options.json",
        lambda p: make_demo_data.claim_folder(
            make_demo_data.DemoOptions(str(p))
        ),
    ),
}
