"""Inputs and helpers of the tests of saved services; see conftest.py."""

import types

import numpy as np
import tensorflow as tf

from albert_tf.finetuning import packing, race
from albert_tf.model import modeling
from albert_tf.serving import make
from albert_tf.serving.formats import saved_model
from tests.conftest import LAYER_ATOL

MAX_SEQ_LENGTH = 16
IDS = ("input_ids", "input_mask", "segment_ids")
LABELS = ("entailment", "not_entailment")
TEXTS = ["It rains in the north.", "", "The ferry waits at the old harbour."]
SECONDS = ["It is wet.", "We stay.", ""]
RACE = race.RaceOptions(max_qa_length=6, pad_options=True)
MASKED = ["The [MASK] rains.", "No gap.", "[MASK] and [MASK]."]


def spread(model):
    """Give all weights new values, so that no answer is close to another."""
    for index, variable in enumerate(model.variables):
        seed = [7, index]
        noise = tf.random.stateless_normal(variable.shape, seed, stddev=0.1)
        variable.assign_add(noise)
    return model


def save(service, path):
    saved_model.save(service, str(path))
    loaded = tf.saved_model.load(str(path))
    return types.SimpleNamespace(
        service=service,
        model=service.model,
        path=path,
        loaded=loaded,
        signatures=loaded.signatures,
    )


def make_service(kind, config, tokenizer):
    """One of the kinds in `SAVED`."""
    given = modeling.AlbertModel(config), tokenizer, MAX_SEQ_LENGTH
    if kind == "pretrained":
        service = make.of_pretraining(*given, sentence_order=True)
    elif kind == "bare":
        service = make.of_encoder(*given)
    elif kind == "of_choices":
        task = race.RaceTask(tokenizer, MAX_SEQ_LENGTH, RACE)
        service = make.of_task(task, given[0])
    else:
        labels = () if kind == "of_numbers" else LABELS
        pairs = kind != "of_singles"
        service = make.of_labels(*given, labels=labels, pairs=pairs)
    spread(service.model)
    return service


def pack(tokenizer, first, second=None):
    """What the Python side makes of texts, padded to MAX_SEQ_LENGTH."""
    rows = [
        packing.pack(
            tokenizer.encode(a), tokenizer.encode(b), tokenizer, MAX_SEQ_LENGTH
        )
        for a, b in zip(first, second or [""] * len(first), strict=True)
    ]
    return {
        name: tf.constant([row[name] for row in rows], tf.int32)
        for name in rows[0]
    }


def assert_close(output, expected):
    np.testing.assert_allclose(output, expected, atol=LAYER_ATOL, rtol=0)


QUESTIONS = [
    # Article, question, options; too long, a gap, two gaps, filled up.
    (" ".join(TEXTS * 2), "Why?", ("It rains.", "No.", "", "The ferry waits.")),
    ("It rains.", "In the _ it rains.", ("north", "south", "old", "harbour")),
    ("", "_ and _", ("It", "The old harbour waits in the north", "We", "1")),
    ("Wet.", "_", ("a", "", "", "")),
    ("Wet.", "It is\uff3f.", (" old", "\uff57et", "\ufe4f", " ")),
]
SAVED = [
    "pretrained",
    "bare",
    "of_pairs",
    "of_singles",
    "of_numbers",
    "of_choices",
]
