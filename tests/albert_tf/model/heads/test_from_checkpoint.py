"""The model that a checkpoint's names and shapes mean."""

import pytest

from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.model.heads import (
    decoder,
    from_checkpoint,
    permutation,
    pretraining,
    replaced_tokens,
)
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.albert_tf.model.models import MODELS
from tests.conftest import refused

# The weights of a scorer of choices are those of a classifier.
NAMES = [name for name in MODELS if name != "choice"]


def shapes(model):
    return {n: list(v.shape) for n, v in passes.named(model).items()}


def checkpoint_with(names_and_shapes):
    return checkpoint_reader.Checkpoint(
        path="model.ckpt-1", shapes=names_and_shapes, config=None, load=dict
    )


@pytest.mark.parametrize("name", NAMES)
def test_model_has_the_variables_of_the_checkpoint(small_config, name):
    saved = MODELS[name](AlbertModel(small_config))
    expected = shapes(saved)
    if name in ("classifier", "tags"):  # Exits are left out.
        saved.add_exits((1, 3), own_heads=True)
    checkpoint = checkpoint_with(shapes(saved))
    model = from_checkpoint.make_untrained_model(small_config, checkpoint)
    assert type(model) is type(saved)
    assert shapes(model) == expected
    left_out = from_checkpoint.only_for_training(checkpoint)
    assert left_out == shapes(saved).keys() - expected.keys()


@pytest.mark.parametrize(
    "make", [permutation.PermutationPretrainer, decoder.SpanPretrainer]
)
def test_only_the_encoder_is_left_of_other_systems(small_config, make):
    saved = make(AlbertModel(small_config))
    checkpoint = checkpoint_with(shapes(saved))
    assert isinstance(
        from_checkpoint.make_untrained_model(small_config, checkpoint),
        AlbertModel,
    )
    left_out = from_checkpoint.only_for_training(checkpoint)
    assert left_out == passes.head_of(saved).keys()


@pytest.mark.parametrize(
    ("sharing", "kept"),
    [("none", "encoder"), ("embeddings", "encoder"), ("all", "pretraining")],
)
def test_only_the_encoder_is_left_of_replaced_token_detection(
    small_config, sharing, kept
):
    saved = replaced_tokens.ReplacedTokenDetector(
        AlbertModel(small_config), small_config, sharing
    )
    checkpoint = checkpoint_with(shapes(saved))
    model = from_checkpoint.make_untrained_model(small_config, checkpoint)
    expected = MODELS[kept](AlbertModel(small_config))
    assert type(model) is type(expected)
    left_out = from_checkpoint.only_for_training(checkpoint)
    assert left_out == shapes(saved).keys() - shapes(model).keys()


@pytest.mark.parametrize("order", [True, False])
def test_heads_of_tasks_about_sentences_are_left_out(small_config, order):
    saved = pretraining.AlbertPretrainer(
        AlbertModel(small_config),
        order,
        tasks={"sentence_distance": 3},
        token_tasks=["capitalization"],
    )
    checkpoint = checkpoint_with(shapes(saved))
    model = from_checkpoint.make_untrained_model(small_config, checkpoint)
    assert type(model) is type(saved) and model.sentence_order == order
    left_out = from_checkpoint.only_for_training(checkpoint)
    assert left_out == shapes(saved).keys() - shapes(model).keys()
    assert len(left_out) == 4


def test_unknown_head_is_refused(small_config):
    names = ["your_head/bias", "bert/pooler/dense/bias", "my_head/kernel"]
    names = dict.fromkeys(names, [16])
    with refused(
        r"^model.ckpt-1 holds .*: my_head, your_head. Known heads are: "
        "cls/predictions, cls/seq_relationship; cls/predictions; classifier;",
    ):
        from_checkpoint.make_untrained_model(
            small_config, checkpoint_with(names)
        )


@pytest.mark.parametrize("name", NAMES)
def test_pooler_may_be_missing_where_no_head_needs_it(small_config, name):
    names = shapes(MODELS[name](AlbertModel(small_config)))
    assert from_checkpoint.missing_scopes(checkpoint_with(names)) == ()
    del names["bert/pooler/dense/bias"]  # This one is damaged.
    assert from_checkpoint.missing_scopes(checkpoint_with(names)) == ()
    del names["bert/pooler/dense/kernel"]
    may = name in ("encoder", "masked words", "squad_v1", "tags", "vectors")
    missing = from_checkpoint.missing_scopes(checkpoint_with(names))
    assert missing == (("bert/pooler",) if may else ())
