"""What all heads do as Keras models."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.model import seeds
from albert_tf.model.heads import classification, model_with_head
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding import model as embedding
from albert_tf.tasks.tagging import model as token_classification
from tests.albert_tf.model import initial_weights, models, passes
from tests.conftest import PARITY_ATOL, tiny_config

IDS = np.array([[2, 17, 30, 3], [2, 5, 6, 3]])
POSITIONS = {"masked_lm_positions": np.array([[1, 2], [2, 0]])}
MORE_INPUTS = {
    "pretraining": POSITIONS,
    "masked words": POSITIONS,
    "choice": {"input_ids": np.stack([IDS, IDS[::-1]], 1)},
    "squad_v2": {"p_mask": np.zeros_like(IDS)},
}


HEADS = [name for name in models.MODELS if name != "encoder"]


@pytest.mark.parametrize("name", HEADS)
def test_answers_are_float32_and_near_it_in_bfloat16(small_config, name):
    inputs = {"input_ids": IDS, **MORE_INPUTS.get(name, {})}
    exact, low = (
        passes.fill(models.MODELS[name](AlbertModel(small_config, precision=p)))
        for p in ("float32", "bfloat16")
    )
    low.set_weights(exact.get_weights())
    for key, value in low(inputs).items():
        assert value.dtype in (tf.int32, tf.float32)
        if value.dtype == tf.float32:  # No index.
            passes.assert_close(value, exact(inputs)[key], 0.1)


@pytest.fixture(params=HEADS)
def model_and_inputs(request, small_config):
    model = models.MODELS[request.param](AlbertModel(small_config))
    inputs = {"input_ids": IDS, **MORE_INPUTS.get(request.param, {})}
    return passes.fill(model, 0.3), inputs


def test_head_is_saved_and_loaded_by_keras(model_and_inputs, tmp_path):
    model, inputs = model_and_inputs
    expected = model(inputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    own, theirs = (m.get_config() for m in (model, loaded))
    # The encoder's has the shapes of its last call.
    assert {**own, "encoder": 0} == {**theirs, "encoder": 0}
    assert loaded.encoder.get_config() == model.encoder.get_config()
    assert list(passes.named(loaded)) == list(passes.named(model))
    passes.assert_close(loaded(inputs), dict(expected), 0)


class MeanClassifier(classification.AlbertClassifier):
    """Reads all tokens, as the page on own tasks does, or some."""

    positions = None

    def call(self, inputs, training=False, dropout_seed=None):
        outputs = self.encode(inputs, training, dropout_seed, self.positions)
        return {"logits": tf.reduce_mean(outputs["sequence_output"], 1)}


@pytest.mark.parametrize("training", [False, True])
def test_head_of_ones_own_reads_all_positions_or_those_it_names(
    small_config, training
):
    encoder = AlbertModel(small_config)
    arguments = {"training": training, "dropout_seed": tf.constant([1, 2])}
    everything = encoder(IDS, **arguments)["sequence_output"]
    model = MeanClassifier(encoder, 3)
    mean = model(IDS, **arguments)["logits"]
    passes.assert_close(mean, tf.reduce_mean(everything, 1))
    model.positions = tf.constant([[0, 3], [0, 2]])
    few = model(IDS, **arguments)["logits"]
    expected = [everything[0, ::3], everything[1, ::2]]
    passes.assert_close(few, tf.reduce_mean(expected, 1))


def test_a_head_has_a_stream_of_dropout(small_config):
    """In training, if it drops anything."""
    model = model_with_head.ModelWithHead(AlbertModel(small_config), "x", 0.25)
    ones = tf.ones([3, 16])
    dropped = model.head_dropout(True, passes.SEED)(ones, 0.25)
    key = passes.fold(passes.SEED, 2**30, 1)
    passes.assert_close(dropped, passes.drop(ones, 0.25, key))
    assert model.head_dropout(False, None) is seeds.NO_DROPOUT
    model.dropout = 0.0
    assert model.head_dropout(True, None) is seeds.NO_DROPOUT


@pytest.mark.parametrize(
    ("name", "own_heads"),
    [
        ("classifier", False),
        ("classifier", True),
        ("pairs", False),
        ("tags", True),
        ("embedder", False),
    ],
)
def test_exits_answer_as_the_encoder_cut_there(name, own_heads):
    """In one pass of training, beside the last layer's answer."""
    encoder = AlbertModel(
        tiny_config(num_hidden_layers=3, inner_group_num=2, pooling="pair")
    )
    ids = np.stack([IDS, IDS[::-1]], 1) if name == "pairs" else IDS
    if name == "tags":
        model = token_classification.AlbertTokenClassifier(encoder, 3, 0.0)
    elif name == "embedder":
        model = embedding.AlbertEmbedder(encoder)
    else:
        labels = 1 if name == "pairs" else 3
        model = classification.AlbertClassifier(encoder, labels, 0.0)
    before = len(model.variables)
    model.add_exits((1, 2), own_heads=own_heads)
    assert len(model.variables) == before + 4 * own_heads
    exits = {n: v for n, v in passes.named(model).items() if "exit" in n}
    if own_heads:
        initial_weights.assert_initial(exits, 0.02)
    passes.fill(model)
    inputs = {
        "input_ids": ids,
        "input_mask": np.where(ids == 3, 0, 1),
        "segment_ids": np.broadcast_to([0, 0, 1, 1], ids.shape),
    }
    found = model(inputs, training=True, dropout_seed=[1, 2])
    answers = [*found.pop("exits"), found]
    for depth, answer in zip((1, 2, 3), answers, strict=True):
        encoder.depth = depth
        expected = model(inputs)
        passes.assert_close(answer, dict(expected), PARITY_ATOL)
        assert expected.keys() == answer.keys()  # No exits.
        if own_heads:
            assert model.output_of(None)[1] is model.output_of(depth)[1]
