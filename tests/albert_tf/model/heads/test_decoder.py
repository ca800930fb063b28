"""The decoder: against plain NumPy; what it sees; what it adds."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model import seeds
from albert_tf.model.heads import decoder
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.conftest import PARITY_ATOL
from tests.reference import decoder as reference


def make_model(config, **options):
    keras.utils.set_random_seed(1)
    return passes.fill(decoder.SpanPretrainer(AlbertModel(config, **options)))


def make_batch():
    targets = np.random.default_rng(7).integers(5, 400, [3, 6])
    targets[1, 4:] = 0
    return {**passes.make_batch(), "target_ids": tf.constant(targets, tf.int32)}


@pytest.mark.parametrize("training", [False, True])
def test_logits_equal_plain_numpy(small_config, training, monkeypatch):
    """In training with a factor where dropout acts, and with its seeds."""
    noted = []

    def scaling(seed):
        noted.append(None if seed is None else tuple(seed.numpy()))
        return seeds.NO_DROPOUT if seed is None else passes.Scaling()

    monkeypatch.setattr(seeds, "DropoutSeeds", scaling)
    config = dataclasses.replace(small_config, **passes.RATES)
    model, batch = make_model(config), make_batch()
    drop = [passes.scale] if training else []
    plain = reference.Decoder(config, passes.values(model), *drop)
    ids, mask, segments, targets = (
        batch[name].numpy()
        for name in ("input_ids", "input_mask", "segment_ids", "target_ids")
    )
    memory = plain.encode(ids, mask, segments)["sequence_output"]
    expected = plain.decode(targets, memory, mask)
    arguments = passes.TRAINING if training else {}
    found = model(batch, **arguments)["target_logits"]
    passes.assert_close(found, expected, PARITY_ATOL)
    if training:  # Embeddings, then each of the eight layers.
        key = passes.fold(passes.SEED, 2**29)
        assert noted[9:] == [
            tuple(passes.fold(key, *[1] * n).numpy()) for n in range(9)
        ]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"position_bias": "alibi"},
        {"position_bias": "relative"},
        {"position_bias": "buckets"},
        {"num_hidden_groups": 1, "share": "none"},
        {"share": "ffn"},
    ],
)
def test_a_target_is_predicted_from_those_before_it(small_config, changes):
    config = dataclasses.replace(small_config, **changes)
    model, batch = make_model(config), make_batch()
    logits = model(batch)["target_logits"].numpy()
    later = batch["target_ids"].numpy()
    later[:, 3] = 9
    found = model({**batch, "target_ids": later})["target_logits"].numpy()
    np.testing.assert_array_equal(found[:, :4], logits[:, :4])
    assert (np.abs(found[:, 4:] - logits[:, 4:]).max(-1) > 1e-5).all()
    padding = {
        **batch,
        "input_ids": batch["input_ids"]
        + tf.constant([[0] * 10, [0] * 9 + [8], [0] * 9 + [8]]),
    }
    found = model(padding)["target_logits"]
    np.testing.assert_allclose(found, logits, atol=1e-6)


def test_all_buckets_are_of_distances_to_what_comes_before(small_config):
    config = dataclasses.replace(small_config, position_bias="buckets")
    model = make_model(config)
    before = model.encoder.fill_defaults({"input_ids": tf.zeros([1, 16])})
    _, bias, _ = model._biases(make_batch(), before)
    np.testing.assert_array_equal(
        bias[:, 15], tf.transpose(model.bucket_biases[15::-1])
    )


@pytest.mark.parametrize("share", ["all", "attention"])
def test_recomputing_changes_no_number(small_config, share):
    config = dataclasses.replace(
        small_config, share=share, num_hidden_layers=2, num_hidden_groups=1
    )
    passes.assert_recomputing_changes_nothing(
        make_model, config, make_batch(), "target_logits", blocks=8
    )


def test_only_attention_to_the_text_and_a_head_are_new(small_config):
    names = passes.head_of(make_model(small_config))
    parts = {name.split("/")[1] for name in names}
    assert {name.split("/")[0] for name in names} == {"decoder"}
    assert parts == {"group_0", "group_1", "predictions"}
    assert sum("query/kernel" in name for name in names) == 4
