"""Every reader of files, one line each: what it reads, and how.

A reader gets a copy of a file, or of a folder in which one file is damaged, and
reads it to its end.
"""

import functools
import os
import shutil
from collections.abc import Callable
from typing import NamedTuple

from albert_tf.common import files, rows, scores
from albert_tf.data import arrangements, examples, record_check, tfrecord
from albert_tf.finetuning import base, features, saved_outputs
from albert_tf.model.checkpoints import (
    checkpoint_reader,
    huggingface,
    keras_hub,
    sentence_modules,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.serving.client import ask
from albert_tf.tasks.embedding import retrieval
from albert_tf.tasks.embedding import task as embedding
from albert_tf.tasks.glue import specs
from albert_tf.tasks.race import task as race
from albert_tf.tasks.squad import data as squad_data
from albert_tf.tasks.tagging import data as tagging_data
from albert_tf.text import normalization, tokenization, wordpiece
from albert_tf.training import run_card, run_folder
from data_prep import inspect_records, make_demo_data, split_sentences
from data_prep.vocabulary import text
from data_prep.writer import corpus, decoding, units
from tests.albert_tf.tasks.glue import small_tasks
from tests.conftest import FIXTURES
from tests.hostile import commands, valid_inputs


@functools.cache
def tokenizer() -> wordpiece.WordPieceTokenizer:
    return wordpiece.WordPieceTokenizer(f"{FIXTURES}/own_text/vocab.txt")


class Reader(NamedTuple):
    """`damaged`: the file in a folder; empty for a file.

    `is_text`: whether a damage of JSON or text says something about it.
    """

    read: Callable[[str], object]
    source: str
    damaged: str = ""
    is_text: bool = True


def read_corpus(path: str, **values) -> None:
    settings = corpus.CorpusOptions(path, **values)
    reader = corpus.CorpusReader(corpus.find_files(settings), settings)
    for block in reader.read_blocks():
        decoding.decode_lines(block, settings)


parquet = functools.partial(read_corpus, input_format="parquet")
arrow = functools.partial(read_corpus, input_format="arrow")


def sentences(path: str) -> None:
    output = f"{os.path.dirname(path)}/sentences.out"
    how = {"num_processes": 1, "overwrite": True}
    split_sentences.run(split_sentences.Options(path, output, **how))


def vocabulary_text(path: str) -> None:
    found = text.Sentences(text.read_lines([path]), str.strip)
    for _ in found:
        pass
    if found.failure:
        raise found.failure


def records(path: str, predictions=commands.PREDICTIONS, **how) -> None:
    expected = record_check.Expected(commands.LENGTH, predictions, 400, **how)
    record_check.check_records([path], expected)
    for record in tfrecord.read_records(path):
        examples.decode(record)


def record_folder(folder: str) -> None:
    records(f"{folder}/train.tfrecord")


def passages(folder: str) -> None:
    how = {"has_masks": False, "kind": "passages"}
    records(f"{folder}/train.tfrecord", 0, **how)


def inspected(path: str) -> None:
    inspect_records.run(inspect_records.InspectOptions(path))


def task(name: str) -> base.Task:
    return small_tasks.make(name, tokenizer(), commands.LENGTH)


def own_pairs(path: str) -> object:
    return list(rows.raise_bad_lines(task("rte").read_own(path)))


def vectors(kind: str) -> Callable[[str], object]:
    def read(path: str) -> object:
        options = embedding.EmbeddingOptions(train_examples=kind)
        given = tokenizer(), commands.LENGTH, options
        return embedding.EmbeddingTask(*given).read(path, base.TRAIN)

    return read


def tags(path: str) -> object:
    return tagging_data.read(path, tagging_data.ColumnOptions())


def race_task() -> race.RaceTask:
    return race.RaceTask(tokenizer(), 64, race.RaceOptions(max_qa_length=32))


def race_file(path: str) -> object:
    return list(rows.raise_bad_lines(race_task().read_own(path)))


def race_folder(folder: str) -> object:
    return race_task().read(folder, base.TRAIN)


def requests(path: str) -> None:
    files.require_regular(path)  # A pipe would be waited for.
    with open(path, "rb") as lines:
        list(ask.read(lines, path, {"text": 1, "text_pair": 1}))


def feature_file(folder: str) -> None:
    """Take a feature file as training does: compare, then shuffle."""
    path, shuffled = f"{folder}/rte.tfrecord", f"{folder}/shuffled"
    shutil.rmtree(shuffled, ignore_errors=True)
    pieces = tokenization.Tokenizer(f"{folder}/spm.model")
    rte = small_tasks.make("rte", pieces, commands.LENGTH)
    found = features.open_prepared(
        rte, path, None, "train", "train_feature_file"
    )
    for _ in tfrecord.read_records(features.shuffle(found, rte, shuffled).path):
        pass


def taught(folder: str) -> object:
    stored = saved_outputs.TeacherOutputs(folder)
    return list(stored.add_to_records([[b"\0" * 16] * valid_inputs.TAUGHT]))


def normalization_file(path: str) -> None:
    vocabulary = path.removesuffix(normalization.ENDING) + ".model"
    normalization.read(vocabulary, normalization.SENTENCEPIECE)


def checkpoint(folder: str) -> None:
    found = checkpoint_reader.read(folder)
    found.load(found.shapes)


def hugging_face_folder(folder: str) -> None:
    huggingface.read_weights(folder)
    huggingface.read_details(folder)


def glue_split(name: str, split: str) -> Reader:
    file = specs.TASKS[name].splits[split].file
    return Reader(lambda path: task(name).read(path, split), f"glue/{file}")


def binary(read: Callable[[str], object], source: str, damaged: str = ""):
    return Reader(read, source, damaged, is_text=False)


def served(path: str) -> None:
    ask.load(path, "serving_default")


def demo_folder(path: str) -> None:
    make_demo_data.write_options(make_demo_data.DemoOptions(path))


DATA = "model.ckpt-2.data-00000-of-00001"
READERS = {
    # Corpora.
    "corpus": Reader(read_corpus, "text.txt"),
    "corpus.gz": binary(read_corpus, "text.txt.gz"),
    "corpus.xz": binary(read_corpus, "text.txt.xz"),
    "corpus.zst": binary(read_corpus, "text.txt.zst"),
    "corpus.jsonl": Reader(
        functools.partial(
            read_corpus, input_format="jsonl", split_sentences=True
        ),
        "text.jsonl",
    ),
    "corpus.parquet": binary(parquet, "text.parquet"),
    "corpus.arrow": binary(arrow, "text.arrow"),
    "corpus.file.arrow": binary(arrow, "text.file.arrow"),
    "sentences": Reader(sentences, "text.txt"),
    "sentences.tar.gz": binary(sentences, "text.tar.gz"),
    "vocabulary text": Reader(vocabulary_text, "text.txt"),
    "units": Reader(lambda p: units.read(p, "phrase_file"), "text.txt"),
    "markers": Reader(arrangements.read_markers, "text.txt"),
    # Vocabularies and architectures.
    "spm.model": binary(tokenization.Tokenizer, "spm.model"),
    "normalization": Reader(normalization_file, "spm.normalization.json"),
    "vocab.txt": Reader(wordpiece.WordPieceTokenizer, "vocab.txt"),
    "albert_config.json": Reader(AlbertConfig.from_json_file, "config.json"),
    "hugging face config": Reader(
        huggingface.read_config, "huggingface/config.json"
    ),
    "hugging face folder": Reader(
        hugging_face_folder, "huggingface", "config.json"
    ),
    "preset config": Reader(keras_hub.read_config, "preset", "config.json"),
    "preset weights": binary(
        keras_hub.read_weights, "preset", "model.weights.h5"
    ),
    "modules.json": Reader(sentence_modules.read, "sentences", "modules.json"),
    "pooling": Reader(
        sentence_modules.read, "sentences", "1_Pooling/config.json"
    ),
    "linear layer": Reader(
        sentence_modules.read, "sentences", "2_Dense/config.json"
    ),
    # Records.
    "records": binary(record_folder, "records", "train.tfrecord"),
    "records alone": binary(records, "records/train.tfrecord"),
    "manifest": Reader(
        record_folder, "records", "train.tfrecord.manifest.json"
    ),
    "inspected": binary(inspected, "records/train.tfrecord"),
    "inspected passages": binary(inspected, "passages/train.tfrecord"),
    "passages": binary(passages, "passages", "train.tfrecord"),
    "features": binary(feature_file, "features", "rte.tfrecord"),
    "feature facts": Reader(feature_file, "features", "rte.tfrecord.json"),
    # Tasks.
    "cola train": glue_split("cola", "train"),
    "sts-b test": glue_split("sts-b", "test"),
    "mnli dev": glue_split("mnli", "dev_matched"),
    "ax": glue_split("ax", "ax"),
    "own pairs.tsv": Reader(own_pairs, "pairs.tsv"),
    "own pairs.csv": Reader(own_pairs, "pairs.csv"),
    "own pairs.jsonl": Reader(own_pairs, "pairs.jsonl"),
    "retrieval": Reader(retrieval.read, "queries.jsonl"),
    "squad": Reader(lambda p: squad_data.read(p, "train_file"), "squad.json"),
    "own questions": Reader(squad_data.read_own, "questions.jsonl"),
    "pairs": Reader(vectors("pairs"), "pairs.tsv"),
    "scored pairs": Reader(vectors("scored"), "scored.jsonl"),
    "triplets": Reader(vectors("triplets"), "triplets.csv"),
    "tags": Reader(tags, "tags.conll"),
    "spans": Reader(tags, "spans.jsonl"),
    "race file": Reader(race_file, "race/train/high/1.txt"),
    "race folder": Reader(race_folder, "race/train", "middle/1.txt"),
    "requests.tsv": Reader(requests, "pairs.tsv"),
    "requests.jsonl": Reader(requests, "pairs.jsonl"),
    # What programs leave behind.
    "run_options.json": Reader(run_folder.read, "rte", "run_options.json"),
    "run's config": Reader(run_folder.read, "rte", "albert_config.json"),
    "metrics.jsonl": Reader(run_card.write, "rte", "metrics.jsonl"),
    "scores.json": Reader(scores.best_scores, "rte", "scores.json"),
    "saved outputs": binary(
        lambda p: saved_outputs.load(p, "dev"), "rte", "dev_outputs.npz"
    ),
    "teacher's outputs": binary(taught, "taught", "00000.npz"),
    "teacher's manifest": Reader(taught, "taught", "teacher_outputs.json"),
    "list of checkpoints": Reader(checkpoint, "pretrained", "checkpoint"),
    "checkpoint.index": binary(checkpoint, "pretrained", "model.ckpt-2.index"),
    "checkpoint.data": binary(checkpoint, "pretrained", DATA),
    "safetensors": binary(
        huggingface.read_weights,
        "huggingface",
        "model.safetensors",
    ),
    "saved_model.pb": binary(served, "served", "saved_model.pb"),
    "saved variables": binary(served, "served", "variables/variables.index"),
    "demo_options.json": Reader(demo_folder, "demo", "demo_options.json"),
}
