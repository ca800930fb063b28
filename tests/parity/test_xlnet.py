"""One and two streams against transformers' XLNet, with the same weights.

`make test-torch`.
"""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import permutation as orders
from albert_tf.model.heads import permutation
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.conftest import tiny_config
from tests.parity.conftest import assert_close
from tests.reference import permutation as reference

pytestmark = pytest.mark.torch

LAYERS, HEADS, WIDTH, LENGTH, MASK = 3, 2, 16, 12, 4
# Of both texts: what is asked for; [CLS] and [SEP].
ASKED, SPECIAL = [2, 3, 9], [0, 5, 11]


@pytest.fixture
def ours():
    config = tiny_config(
        num_hidden_layers=LAYERS,
        hidden_act="gelu_erf",
        position_bias="relative",
    )
    model = passes.fill(
        permutation.PermutationPretrainer(AlbertModel(config)), 0.2
    )
    # What XLNet does not have.
    attention = model.encoder.attentions[0][0]
    tables = model.encoder.embeddings
    for variable in (
        attention.key.bias,
        attention.value.bias,
        attention.output_dense.bias,
        tables.position_embeddings,
        tables.token_type_embeddings,
    ):
        variable.assign(tf.zeros_like(variable))
    return model


def theirs_of(ours):
    """XLNet with the weights of our only layer in all of its layers."""
    import torch
    import transformers

    theirs = transformers.XLNetModel(
        transformers.XLNetConfig(
            vocab_size=7,
            d_model=WIDTH,
            n_layer=LAYERS,
            n_head=HEADS,
            d_inner=24,
            ff_activation="gelu",
            dropout=0.0,
        )
    ).eval()
    encoder = ours.encoder
    attention, ffn = encoder.attentions[0][0], encoder.feed_forwards[0][0]
    columns, head = (WIDTH, HEADS, -1), (HEADS, -1)
    u = attention.query.bias.numpy()
    position, segment = attention.relative_position, attention.relative_segment
    other = np.random.default_rng(3).normal(size=WIDTH)
    same = other + segment.kernel.numpy()[0]
    asked = encoder.embed(encoder.fill_defaults({"input_ids": [[MASK]]}), None)
    values = {
        "rel_attn.q": attention.query.kernel.numpy().reshape(columns),
        "rel_attn.k": attention.key.kernel.numpy().reshape(columns),
        "rel_attn.v": attention.value.kernel.numpy().reshape(columns),
        "rel_attn.o": attention.output_dense.kernel.numpy().T.reshape(columns),
        "rel_attn.r": position.kernel.numpy().reshape(columns),
        "rel_attn.r_w_bias": u.reshape(head),
        "rel_attn.r_r_bias": (u + position.bias.numpy()).reshape(head),
        "rel_attn.r_s_bias": (u + segment.bias.numpy()).reshape(head),
        "rel_attn.seg_embed": np.stack([same, other]).reshape(2, *head),
        "rel_attn.layer_norm.weight": attention.layer_norm.gamma.numpy(),
        "rel_attn.layer_norm.bias": attention.layer_norm.beta.numpy(),
        "ff.layer_1.weight": ffn.intermediate.kernel.numpy().T,
        "ff.layer_1.bias": ffn.intermediate.bias.numpy(),
        "ff.layer_2.weight": ffn.output_dense.kernel.numpy().T,
        "ff.layer_2.bias": ffn.output_dense.bias.numpy(),
        "ff.layer_norm.weight": ffn.layer_norm.gamma.numpy(),
        "ff.layer_norm.bias": ffn.layer_norm.beta.numpy(),
    }
    found = {
        f"layer.{number}.{name}": value
        for number in range(LAYERS)
        for name, value in values.items()
    }
    found |= {
        "mask_emb": asked[-1].numpy(),
        "word_embedding.weight": np.zeros([7, WIDTH]),
    }
    theirs.load_state_dict(
        {n: torch.tensor(v, dtype=torch.float32) for n, v in found.items()}
    )
    return theirs


def make_inputs():
    """Two texts of two segments; the second ends in three padding tokens."""
    ids = np.random.default_rng(2).integers(5, 400, [2, LENGTH])
    mask = np.ones([2, LENGTH], int)
    mask[1, 9:] = 0
    segments = np.arange(LENGTH) > SPECIAL[1]
    return {
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": np.repeat(segments[None].astype(int), 2, 0),
    }


def run_theirs(ours, inputs, **more):
    import torch

    embedded = ours.encoder.embed(passes.tensors(inputs), None)[-1].numpy()
    with torch.no_grad():
        found = theirs_of(ours)(
            inputs_embeds=torch.tensor(embedded),
            token_type_ids=torch.tensor(inputs["segment_ids"]),
            **{n: torch.tensor(v).float() for n, v in more.items()},
        )
    return found.last_hidden_state.numpy()


@pytest.mark.parametrize("training", [False, True])
def test_one_stream_is_theirs(ours, training):
    inputs = make_inputs()
    expected = run_theirs(ours, inputs, attention_mask=inputs["input_mask"])
    found = ours.encoder(passes.tensors(inputs), training=training)
    real = inputs["input_mask"] > 0
    assert_close(found["sequence_output"].numpy()[real], expected[real])


@pytest.mark.parametrize("training", [False, True])
def test_two_streams_are_theirs(ours, training):
    inputs = make_inputs() | {"input_mask": np.ones([2, LENGTH], int)}
    asked, special = (
        np.repeat(np.isin(np.arange(LENGTH), some)[None], 2, 0)
        for some in (ASKED, SPECIAL)
    )
    keys = np.array([5, 6], np.uint64)
    ranks, horizons = orders.draw_order(asked, special, asked | True, keys)
    hidden = [
        reference.hidden_from(*of_text)
        for of_text in zip(ranks, asked, special, strict=True)
    ]
    expected = run_theirs(
        ours,
        inputs,
        perm_mask=np.array(hidden),
        target_mapping=np.repeat(np.eye(LENGTH)[None, ASKED], 2, 0),
    )
    batch = passes.tensors(
        {
            **inputs,
            "query_ids": np.where(asked, MASK, inputs["input_ids"]),
            "ranks": ranks,
            "horizons": horizons,
            "masked_lm_positions": np.array([ASKED, ASKED]),
        }
    )
    assert_close(
        ours(batch, training=training)["masked_lm_logits"],
        ours.words.word_logits(tf.constant(expected)),
    )
