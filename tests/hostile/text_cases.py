"""Files that are given as text and are something else; see `cases`."""

from tests.hostile.cases import Case

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
READERS = (
    "create_pretraining_data",
    "split_sentences",
    "train_sentencepiece",
    "train_wordpiece",
)

CASES = {
    f"{name}, {command}": Case(
        command,
        {"input_file": "{here}/t"},
        ("{here}/t", "begins as JSON, XML or RTF do"),
        {"t": content},
    )
    for name, content in DOCUMENTS.items()
    for command in READERS
}
