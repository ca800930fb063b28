"""Bad inputs: a command, one changed file or option, and its message.

A line of `CASES` is a test. `changes` replace options that work. `files` are
written into the current folder first: `{here}/NAME` is the path of one.
`copies` names files and folders of the valid inputs that are copied there
before; a function in `files` changes one of them. `says` lists what the error
message must contain; a case without it must succeed.
"""

import functools
import gzip
import json
import struct
from collections.abc import Callable
from typing import NamedTuple

import pyarrow
from sentencepiece import sentencepiece_model_pb2

from tests.conftest import tiny_config
from tests.hostile import tables

Content = bytes | Callable[[bytes], bytes]


class Case(NamedTuple):
    command: str
    changes: dict[str, object]
    says: tuple[str, ...] = ()
    files: dict[str, Content] = {}
    copies: tuple[str, ...] = ()


def config(**changes) -> bytes:
    """An architecture with other values."""
    values = {**json.loads(tiny_config().to_json()), **changes}
    return json.dumps(values).encode()


def questions(**changes) -> bytes:
    entry = {
        "id": "1",
        "question": "Who slept?",
        "answers": [{"text": "Ivo", "answer_start": 0}],
        **changes,
    }
    paragraph = {"context": "Ivo slept.", "qas": [entry]}
    return json.dumps({"data": [{"paragraphs": [paragraph]}]}).encode()


def safetensors(header: object, length: int | None = None) -> bytes:
    written = json.dumps(header).encode()
    size = len(written) if length is None else length
    return struct.pack("<Q", size) + written + bytes(16)


def without_piece(whole: bytes, piece: str) -> bytes:
    model = sentencepiece_model_pb2.ModelProto.FromString(whole)
    (entry,) = (p for p in model.pieces if p.piece == piece)
    entry.piece = "[OTHER]"
    return model.SerializeToString()


def with_module(name: str) -> dict[str, Content]:
    def change(whole: bytes) -> bytes:
        content = json.loads(whole)
        content["options"]["task_module"] = name
        return json.dumps(content).encode()

    return {"rte/run_options.json": change}


DEEP = b"[" * 100_000
TENSOR = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}

CORPUS, FEATURES = "create_pretraining_data", "create_finetuning_data"
RECORDS, CLASSIFIER = "run_pretraining", "run_classifier"
PREDICT, EXPORT, CONVERT = "predict", "export", "convert_checkpoint"
RUN_READERS = (PREDICT, EXPORT, "ensemble")


def given(
    command: str,
    option: str,
    name: str,
    content: Content,
    *says: str,
    **changes: object,
) -> Case:
    where = {option: "{here}/" + name, **changes}
    return Case(command, where, says, {name: content})


partial = functools.partial
text_file = partial(given, CORPUS, "input_file", "t")
table_file = partial(
    given, CORPUS, "input_file", "t.parquet", input_format="parquet"
)
config_file = partial(given, RECORDS, "albert_config_file", "c.json")
task_file = partial(given, FEATURES, "input_file", is_training=True)
squad = partial(
    task_file,
    "train.json",
    task_name="squad",
    doc_stride=8,
    max_query_length=8,
)


def table(columns: object, *says: str, write=tables.parquet, **changes) -> Case:
    if isinstance(columns, dict):
        columns = pyarrow.table(columns)
    return table_file(write(columns), *says, **changes)


def architecture(*says: str, **changes: object) -> Case:
    return config_file(config(**changes), *says)


def tensors(header: object, *says: str, length: int | None = None) -> Case:
    files = {
        "hf/config.json": b'{"model_type": "albert", "vocab_size": 400}',
        "hf/model.safetensors": safetensors(header, length),
    }
    says = says or ("model.safetensors",)
    return Case(CONVERT, {"from": "{here}/hf", "format": "tf1"}, says, files)


def lacking(piece: str, *says: str, command: str = CORPUS):
    where = {"spm_model_file": "{here}/spm.model"}
    files = {"spm.model": lambda whole: without_piece(whole, piece)}
    return Case(command, where, says, files, ("spm.model",))


def of_run(name: str, module: str, *says: str) -> dict[str, Case]:
    both = {"run_dirs": "{here}/rte,{inputs}/rte_again"}
    one = {"run_dir": "{here}/rte"}
    return {
        f"{name}, {command}": Case(
            command,
            both if command == "ensemble" else one,
            says,
            with_module(module),
            ("rte",),
        )
        for command in RUN_READERS
    }


# Files that are given as text and are something else.
DOCUMENTS = {
    "config.json": b'{\n  "hidden_size": 16\n}\n',
    "an object in a line": b'{"title": "Ivo"}\n',
    "a notebook": b'{\n "cells": [\n  {\n   "source": []\n  }\n ]\n}\n',
    "a list of objects": b'[\n  {"text": "Ivo slept."}\n]\n',
    "a list of texts": b'["Ivo slept.", "Mara woke."]\n',
    "a Wikipedia dump": b'<mediawiki xmlns="x">\n<page>\n',
    "a web page": b"\n<!doctype html>\n<html>\n",
    "RTF": b"{\\rtf1\\ansi Ivo slept.}\n",
}
TEXT_READERS = (
    CORPUS,
    "split_sentences",
    "train_sentencepiece",
    "train_wordpiece",
)
BEGINS = "begins as JSON, XML or RTF do"

CASES = {
    **{
        f"{name}, {by}": given(
            by, "input_file", "t", content, "{here}/t", BEGINS
        )
        for name, content in DOCUMENTS.items()
        for by in TEXT_READERS
    },
    # Corpora.
    "half a megabyte of zeros": text_file(bytes(500_000), "{here}/t"),
    "text that is packed": text_file(gzip.compress(b"a\n"), "{here}/t"),
    # Tables.
    "table without the column": table(
        {"body": ["Ivo slept."]},
        "--text_column=text",
        "{here}/t.parquet",
        "columns are: body",
    ),
    "table of numbers": table({"text": [1, 2]}, "--text_column", "holds int64"),
    "table of lists": table(
        {"text": [["Ivo slept."]]}, "--text_column", "holds list<"
    ),
    "table of bytes": table({"text": [b"Ivo"]}, "--text_column", "binary"),
    "column of a table twice": table(
        pyarrow.table([["a"], ["b"]], names=["text", "text"]), "names 2 columns"
    ),
    "table of null": table({"text": [None]}, "--text_column", "holds null"),
    "no rows": table({"text": pyarrow.array([], "string")}, "--input_file"),
    "table without columns": table({}, "--text_column"),
    "no name of a column": table(
        {"text": ["Ivo slept."]}, "--text_column", text_column=""
    ),
    "row of 50 MB": table({"text": ["a" * 50_000_000]}, "t.parquet", "1"),
    "Arrow called Parquet": table(
        {"text": ["a"]}, "{here}/t.parquet", write=tables.arrow
    ),
    "no Arrow": table({"text": ["a"]}, "t.parquet", input_format="arrow"),
    # Vocabularies.
    "no [CLS]": lacking("[CLS]", "spm.model", "[CLS]"),
    "no [SEP]": lacking("[SEP]", "spm.model", "[SEP]"),
    "no [MASK]": lacking("[MASK]", "spm.model", "[MASK]"),
    "no <pad>": lacking("<pad>", "spm.model", "<pad>"),
    "no [CLS], finetuning": lacking("[CLS]", "spm.model", command=CLASSIFIER),
    # Architectures.
    "hidden_size of true": architecture("hidden_size", hidden_size=True),
    "dropout that is no number": architecture(
        "c.json", "is not JSON", hidden_dropout_prob=float("nan")
    ),
    "records of a smaller vocabulary": architecture(
        "vocabulary of 400 pieces; the model has 401", vocab_size=401
    ),
    "vocabulary smaller than the model": Case(
        CLASSIFIER,
        {"albert_config_file": "{here}/c.json", "init_checkpoint": None},
        ("has 400 pieces, but", "has vocab_size 1400"),
        {"c.json": config(vocab_size=1400)},
    ),
    "activation that is none": architecture("hidden_act", hidden_act=["gelu"]),
    "deep architecture": config_file(DEEP, "c.json"),
    # Pretraining.
    "other pieces": lacking("▁", "another vocabulary", command=RECORDS),
    # SQuAD.
    "half a character as id": squad(questions(id="\ud83d"), "train.json"),
    "answer_start of true": squad(
        questions(answers=[{"text": "Ivo", "answer_start": True}]),
        "answer_start",
    ),
    # A user's own file.
    "picture": given(
        PREDICT,
        "input_file",
        "p.jsonl",
        b"\x89PNG\r\n\0\0IHDR",
        "is not text",
        run_dir="nowhere",
    ),
    # Checkpoints.
    "tensors of nothing": tensors({}),
    "header longer than the file": tensors({"a": TENSOR}, length=10**6),
    "header without end": tensors({"a": TENSOR}, length=2**63),
    "tensor beyond the end": tensors(
        {"a": {**TENSOR, "data_offsets": [0, 10**9]}}
    ),
    "tensor of another shape": tensors(
        {"a": {**TENSOR, "shape": [10**9, 10**9]}}
    ),
    "tensor of an unknown type": tensors({"a": {**TENSOR, "dtype": "F7"}}),
    "tensors in place of a list": tensors([]),
    "checkpoint that is a text": Case(
        CONVERT,
        {"from": "{here}/m.ckpt"},
        ("--from",),
        {"m.ckpt.index": b"text"},
    ),
    # What a run's folder from elsewhere may hold.
    **of_run(
        "module of the folder",
        "payload",
        "--task_module=payload",
        "if you trust its code, add",
    ),
    "module of the folder, encoder": Case(
        EXPORT,
        {"run_dir": "{here}/rte", "task": "encoder"},
        files=with_module("payload"),
        copies=("rte",),
    ),
    **of_run("module elsewhere", "os", "=os"),
}
