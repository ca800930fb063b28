"""Logits of tokens: against their definition."""

from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.tagging import model as token_classification
from tests.albert_tf.model import initial_weights, passes


def test_logits_are_a_linear_layer_on_every_token(small_config):
    model = token_classification.AlbertTokenClassifier(
        AlbertModel(small_config), 4
    )
    assert model.dropout == 0.1
    initial_weights.assert_initial(passes.head_of(model), 0.02)
    passes.fill(model)
    batch = passes.make_batch()
    x = model.encoder(batch)["sequence_output"].numpy()
    weights = passes.values(model)
    expected = x @ weights["cls/tags/output_weights"].T
    expected += weights["cls/tags/output_bias"]
    passes.assert_close(model(batch)["logits"], expected, 1e-6)


def test_each_depth_drops_and_has_its_own_head(small_config):
    model = token_classification.AlbertTokenClassifier(
        AlbertModel(small_config), 4, 0.3
    )
    model.add_exits((2,), own_heads=True)
    passes.fill(model)
    batch = passes.make_batch()
    states = model.encoder(batch, **passes.TRAINING)["all_encoder_layers"]
    last = model(batch, **passes.TRAINING)
    for use, (depth, found) in enumerate([(4, last), (2, *last["exits"])], 1):
        key = passes.fold(passes.SEED, passes.HEAD, use)
        x = passes.drop(states[2 * depth - 1].numpy(), 0.3, key)
        weights, bias = (v.numpy() for v in model.output_of(depth))
        passes.assert_close(found["logits"], x @ weights.T + bias)
