"""Inputs and helpers of the tests of saved services; see conftest.py."""

import types

import numpy as np
import tensorflow as tf

from albert_tf.finetuning import packing
from albert_tf.model.heads import classification, pretraining
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import make
from albert_tf.serving.formats import saved_model
from albert_tf.serving.services import encoder_service
from albert_tf.tasks.embedding import task as embedding
from albert_tf.tasks.race import task as race
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import task as squad
from albert_tf.tasks.tagging import task as tagging
from albert_tf.tasks.text import service as text_service
from tests.conftest import LAYER_ATOL

MAX_SEQ_LENGTH = 16
IDS = ("input_ids", "input_mask", "segment_ids")
LABELS = ("yes", "no", "maybe")
TEXTS = ["It rains in the north.", "", "The ferry waits at the old harbour."]
SECONDS = ["It is wet.", "We stay.", ""]
RACE = race.RaceOptions(max_qa_length=6, pad_options=True)
MASKED = ["The [MASK] rains.", "No gap.", "[MASK] and [MASK]."]


def spread(model, stddev=0.1):
    """Give all weights new values, so that no answer is close to another.

    They are the same in every run: only vectors start from what they had, all
    zeros or all ones.
    """
    for index, variable in enumerate(model.variables):
        seed = [7, index]
        noise = tf.random.stateless_normal(variable.shape, seed, stddev=stddev)
        start = variable if variable.shape.rank == 1 else 0.0
        variable.assign(start + noise)
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


def make_service(kind, config, tokenizer, length=MAX_SEQ_LENGTH):
    """A kind of service, with spread weights; only the classifier has pairs."""
    given = AlbertModel(config), tokenizer, length
    if kind == "encoder":
        service = encoder_service.EncoderService(*given)
    elif kind == "embedding":
        task = embedding.EmbeddingTask(
            tokenizer, length, embedding.EmbeddingOptions(text_pooling="max")
        )
        service = make.of_task(task, given[0])
    elif kind == "tagging":
        options_of_tags = tagging.TaggingOptions("O\tB-x\tI-x")
        task = tagging.TaggingTask(tokenizer, length, options_of_tags)
        service = make.of_task(task, given[0])
    elif kind == "pretraining":
        model = pretraining.AlbertPretrainer(given[0], True)
        service = encoder_service.PretrainedService(model, *given[1:])
    elif kind == "classifier":
        model = classification.AlbertClassifier(given[0], len(LABELS))
        service = text_service.of_texts(
            model, *given[1:], labels=LABELS, pairs=True
        )
    elif kind == "regression":
        model = classification.AlbertClassifier(given[0], 1)
        service = text_service.of_texts(
            model, *given[1:], labels=(), pairs=False
        )
    elif kind == "race":
        task = race.RaceTask(tokenizer, length, RACE)
        service = make.of_task(task, given[0])
    else:
        options = squad.SquadOptions(
            kind.removeprefix("squad "),
            null_score_diff_threshold=0.0,
            windows=squad_features.PassageWindows(7, 8),
        )
        task = squad.SquadTask(tokenizer, length, options)
        service = make.of_task(task, given[0])
    spread(service.model)
    return service


def pack(tokenizer, first, second=None):
    """What the Python side makes of texts, padded to MAX_SEQ_LENGTH."""
    texts = zip(first, second or [""] * len(first), strict=True)
    pairs = [map(tokenizer.encode, pair) for pair in texts]
    rows = packing.pack(pairs, tokenizer, MAX_SEQ_LENGTH)
    return {name: tf.constant(ids, tf.int32) for name, ids in rows.items()}


def are_cut(tokenizer, first, second=None):
    """Which texts, or pairs of them, have more than MAX_SEQ_LENGTH tokens."""
    cut = []
    for a, b in zip(first, second or [""] * len(first), strict=True):
        sizes = [len(tokenizer.encode(text)) for text in (a, b)]
        cut.append(sum(sizes) + 2 + bool(sizes[1]) > MAX_SEQ_LENGTH)
    assert set(cut) == {False, True}
    return cut


def assert_close(output, expected):
    """Compare with LAYER_ATOL, and one rounding more of what is above 1.

    Layer normalization of 16 numbers gives up to 4, where float32 has steps of
    2.4e-7. With 400 draws of weights the largest difference was five of them,
    1.2e-6, and 9e-7 among numbers below 1.
    """
    rounding = np.finfo(np.float32).eps
    np.testing.assert_allclose(output, expected, atol=LAYER_ATOL, rtol=rounding)


QUESTIONS = [
    # Article, question, options; too long, a gap, two gaps, empty options.
    (" ".join(TEXTS * 2), "Why?", ("It rains.", "No.", "", "The ferry waits.")),
    ("It rains.", "In the _ it rains.", ("north", "south", "old", "harbour")),
    ("", "_ and _", ("It", "The old harbour waits in the north", "We", "1")),
    ("Wet.", "__ _ .", ("", "a", "", "")),
    ("Wet.", "It is\uff3f.", (" old", "\uff57et", "\ufe4f", " ")),
]
# Fixtures in conftest.py.
SAVED = ["pretrained", "of_pairs", "of_numbers", "of_choices"]
