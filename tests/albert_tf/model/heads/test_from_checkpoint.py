"""The model that a checkpoint's names and shapes mean."""

import pytest

from albert_tf.common import errors
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.model.heads import (
    classification,
    from_checkpoint,
    pretraining,
    question_answering,
    replaced_tokens,
)
from albert_tf.model.network.encoder import AlbertModel

MODELS = {
    "encoder": lambda e: e,
    "pretrainer": pretraining.AlbertPretrainer,
    "masked_lm": lambda e: pretraining.AlbertPretrainer(
        e, sentence_order=False
    ),
    "classifier": lambda e: classification.AlbertClassifier(e, 3),
    "squad_v1": question_answering.AlbertSquadV1,
    "squad_v2": question_answering.AlbertSquadV2,
}


def shapes(model):
    return {
        checkpoint_reader.name_of(v): list(v.shape) for v in model.variables
    }


def checkpoint_with(names_and_shapes):
    return checkpoint_reader.Checkpoint(
        path="model.ckpt-1", shapes=names_and_shapes, config=None, load=dict
    )


@pytest.mark.parametrize("name", MODELS)
def test_model_has_the_variables_of_the_checkpoint(small_config, name):
    saved = MODELS[name](AlbertModel(small_config))
    model = from_checkpoint.make_model(
        small_config, checkpoint_with(shapes(saved))
    )
    assert type(model) is type(saved)
    assert shapes(model) == shapes(saved)


@pytest.mark.parametrize(
    ("sharing", "kept"),
    [("none", "encoder"), ("embeddings", "encoder"), ("all", "pretrainer")],
)
def test_only_the_encoder_is_left_of_replaced_token_detection(
    small_config, sharing, kept
):
    saved = replaced_tokens.ReplacedTokenDetector(
        AlbertModel(small_config), small_config, sharing
    )
    checkpoint = checkpoint_with(shapes(saved))
    model = from_checkpoint.make_model(small_config, checkpoint)
    expected = MODELS[kept](AlbertModel(small_config))
    assert type(model) is type(expected)
    assert shapes(model) == shapes(expected)
    left_out = from_checkpoint.only_for_training(checkpoint)
    assert left_out == shapes(saved).keys() - shapes(model).keys()


def test_unknown_head_is_refused(small_config):
    names = {"bert/pooler/dense/bias": [16], "my_head/kernel": [16, 2]}
    with pytest.raises(errors.UserError, match="no model of this.*: my_head"):
        from_checkpoint.make_model(small_config, checkpoint_with(names))


@pytest.mark.parametrize("name", MODELS)
def test_pooler_may_be_missing_where_no_head_needs_it(small_config, name):
    names = shapes(MODELS[name](AlbertModel(small_config)))
    assert from_checkpoint.missing_scopes(checkpoint_with(names)) == ()
    del names["bert/pooler/dense/bias"]  # This one is damaged.
    assert from_checkpoint.missing_scopes(checkpoint_with(names)) == ()
    del names["bert/pooler/dense/kernel"]
    may = name in ("encoder", "masked_lm", "squad_v1")
    missing = from_checkpoint.missing_scopes(checkpoint_with(names))
    assert missing == (("bert/pooler",) if may else ())
