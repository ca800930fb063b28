"""Every reader of files, one line each: what it reads, and how.

A reader gets a copy of a file, or of a folder in which one file is damaged, and
reads it to its end.
"""

import pathlib
import shutil
from collections.abc import Callable
from typing import NamedTuple

from albert_tf.common import files, scores
from albert_tf.data import arrangements, examples, record_check, tfrecord
from albert_tf.finetuning import (
    base,
    embedding,
    features,
    race,
    retrieval,
    saved_outputs,
    tagging_data,
    text_files,
)
from albert_tf.finetuning.glue import glue, glue_tasks
from albert_tf.finetuning.squad import squad_data
from albert_tf.model.checkpoints import (
    checkpoint_reader,
    huggingface,
    sentence_modules,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.serving.client import ask
from albert_tf.text import normalization, tokenization, wordpiece
from albert_tf.training import run_card, run_folder
from data_prep import inspect_records, make_demo_data, split_sentences
from data_prep.vocabulary import text
from data_prep.writer import corpus, decoding, units
from tests.hostile import commands

Path = pathlib.Path


class Reader(NamedTuple):
    """`damaged`: the file in a folder; empty for a file.

    `is_text`: whether a damage of JSON or text says something about it.
    """

    read: Callable[[Path], object]
    source: str
    damaged: str = ""
    is_text: bool = True


def corpus_of(path: Path, **values) -> None:
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
    record_check.check_records(
        [str(path)],
        record_check.Expected(commands.LENGTH, commands.PREDICTIONS, 400),
    )
    for _ in tfrecord.read_records(str(path)):
        pass


def record_folder(folder: Path) -> None:
    pretraining_records(folder / "train.tfrecord")


def passages(folder: Path) -> None:
    path = str(folder / "train.tfrecord")
    record_check.check_records(
        [path],
        record_check.Expected(
            commands.LENGTH, 0, 400, has_masks=False, kind="passages"
        ),
    )
    for record in tfrecord.read_records(path):
        examples.decode(record)


def inspected(path: Path) -> None:
    inspect_records.run(inspect_records.InspectOptions(str(path)))


def task(name: str, inputs_path: Path) -> base.Task:
    return glue.GlueTask(name, letters(inputs_path), commands.LENGTH)


def letters(folder: Path) -> wordpiece.WordPieceTokenizer:
    """The vocabulary of letters; made anew, so that it is never damaged."""
    path = folder / "letters.txt"
    if not path.exists():
        path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\n")
    return wordpiece.WordPieceTokenizer(str(path))


def glue_file(name: str, split: str) -> Callable[[Path], object]:
    return lambda path: task(name, path.parent).read(str(path), split)


def own_pairs(path: Path) -> object:
    rows = task("rte", path.parent).read_own(str(path))
    return list(text_files.strictly(rows))


def vectors(kind: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        options = embedding.EmbeddingOptions(train_examples=kind)
        given = letters(path.parent), commands.LENGTH, options
        return embedding.EmbeddingTask(*given).read(str(path), base.TRAIN)

    return read


def tags(path: Path) -> object:
    return tagging_data.read(str(path), tagging_data.ColumnOptions())


def race_file(path: Path) -> object:
    race_task = race.RaceTask(
        letters(path.parent), 64, race.RaceOptions(max_qa_length=32)
    )
    return list(text_files.strictly(race_task.read_own(str(path))))


def race_folder(folder: Path) -> object:
    race_task = race.RaceTask(
        letters(folder.parent), 64, race.RaceOptions(max_qa_length=32)
    )
    return race_task.read(str(folder), base.TRAIN)


def requests(path: Path) -> None:
    files.require_regular(str(path))  # A pipe would be waited for.
    with open(path, "rb") as lines:
        list(ask.read(lines, str(path), {"text": 1, "text_pair": 1}))


def feature_file(folder: Path) -> None:
    """Take a feature file as training does: compare, then shuffle."""
    path = str(folder / "rte.tfrecord")
    shutil.rmtree(folder / "shuffled", ignore_errors=True)
    rte = glue.GlueTask(
        "rte",
        tokenization.Tokenizer(str(folder / "spm.model")),
        commands.LENGTH,
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


def modules(folder: Path) -> None:
    sentence_modules.read(str(folder))


def run_log_and_card(folder: Path) -> None:
    run_card.write(str(folder))


def glue_split(name: str, split: str) -> Reader:
    file = glue_tasks.TASKS[name].splits[split].file
    return Reader(glue_file(name, split), f"glue/{file}")


def binary(read: Callable[[Path], object], source: str, damaged: str = ""):
    return Reader(read, source, damaged, is_text=False)


def run_options(path: Path) -> None:
    run_folder.read(str(path))


def served(path: Path) -> None:
    ask.load(str(path), "serving_default")


def sentencepiece(path: Path) -> None:
    tokenization.Tokenizer(str(path))


def parquet(path: Path) -> None:
    corpus_of(path, input_format="parquet")


def arrow(path: Path) -> None:
    corpus_of(path, input_format="arrow")


def demo_folder(path: Path) -> None:
    make_demo_data.claim_folder(make_demo_data.DemoOptions(str(path)))


DATA = "model.ckpt-2.data-00000-of-00001"
READERS = {
    # Corpora.
    "corpus": Reader(corpus_of, "text.txt"),
    "corpus.gz": binary(corpus_of, "text.txt.gz"),
    "corpus.xz": binary(corpus_of, "text.txt.xz"),
    "corpus.zst": binary(corpus_of, "text.txt.zst"),
    "corpus.jsonl": Reader(json_corpus, "text.jsonl"),
    "corpus.parquet": binary(parquet, "text.parquet"),
    "corpus.arrow": binary(arrow, "text.arrow"),
    "corpus.file.arrow": binary(arrow, "text.file.arrow"),
    "sentences": Reader(sentences, "text.txt"),
    "sentences.tar.gz": binary(sentences, "text.tar.gz"),
    "vocabulary text": Reader(vocabulary_text, "text.txt"),
    "units": Reader(lambda p: units.read(str(p), "phrase_file"), "text.txt"),
    "markers": Reader(lambda p: arrangements.read_markers(str(p)), "text.txt"),
    # Vocabularies and architectures.
    "spm.model": binary(sentencepiece, "spm.model"),
    "normalization": Reader(normalization_file, "spm.normalization.json"),
    "vocab.txt": Reader(
        lambda p: wordpiece.WordPieceTokenizer(str(p)), "vocab.txt"
    ),
    "albert_config.json": Reader(
        lambda p: AlbertConfig.from_json_file(str(p)), "config.json"
    ),
    "hugging face config": Reader(
        lambda p: huggingface.read_config(str(p)), "huggingface/config.json"
    ),
    "hugging face folder": Reader(
        hugging_face_folder, "huggingface", "config.json"
    ),
    "modules.json": Reader(modules, "sentences", "modules.json"),
    "pooling": Reader(modules, "sentences", "1_Pooling/config.json"),
    "linear layer": Reader(modules, "sentences", "2_Dense/config.json"),
    # Records.
    "records": binary(record_folder, "records", "train.tfrecord"),
    "records alone": binary(pretraining_records, "records/train.tfrecord"),
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
    "retrieval": Reader(lambda p: retrieval.read(str(p)), "queries.jsonl"),
    "squad": Reader(
        lambda p: squad_data.read(str(p), "train_file"), "squad.json"
    ),
    "own questions": Reader(
        lambda p: squad_data.read_own(str(p)), "questions.jsonl"
    ),
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
    "run_options.json": Reader(run_options, "rte", "run_options.json"),
    "run's config": Reader(run_options, "rte", "albert_config.json"),
    "metrics.jsonl": Reader(run_log_and_card, "rte", "metrics.jsonl"),
    "scores.json": Reader(
        lambda p: scores.of_best(str(p)), "rte", "scores.json"
    ),
    "saved outputs": binary(
        lambda p: saved_outputs.load(str(p), "dev"), "rte", "dev_outputs.npz"
    ),
    "list of checkpoints": Reader(checkpoint, "pretrained", "checkpoint"),
    "checkpoint.index": binary(checkpoint, "pretrained", "model.ckpt-2.index"),
    "checkpoint.data": binary(checkpoint, "pretrained", DATA),
    "safetensors": binary(
        lambda p: huggingface.read_weights(str(p)),
        "huggingface",
        "model.safetensors",
    ),
    "saved_model.pb": binary(served, "served", "saved_model.pb"),
    "saved variables": binary(served, "served", "variables/variables.index"),
    "demo_options.json": Reader(demo_folder, "demo", "demo_options.json"),
}
