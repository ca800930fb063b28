"""What is computed in: asked for, or Keras' global policy."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.common import errors
from albert_tf.model import precisions
from albert_tf.model.network.encoder import AlbertModel

IDS = np.array([[2, 17, 30, 3], [2, 5, 6, 3]])


@pytest.fixture
def policy(request):
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(request.param)
    yield request.param
    keras.mixed_precision.set_global_policy(before)


@pytest.mark.parametrize("policy", ["mixed_bfloat16"], indirect=True)
def test_global_policy_is_the_default_precision(small_config, policy):
    model = AlbertModel(small_config)
    assert model.precision == "bfloat16"
    explicit = AlbertModel(small_config, precision="bfloat16")
    explicit.set_weights(model.get_weights())
    assert {v.dtype for v in model.variables} == {tf.float32}
    outputs = model(IDS)
    assert outputs["sequence_output"].dtype == tf.bfloat16
    np.testing.assert_array_equal(
        outputs["pooled_output"], explicit(IDS)["pooled_output"]
    )
    exact = AlbertModel(small_config, precision="float32")
    assert exact(IDS)["sequence_output"].dtype == tf.float32


@pytest.mark.parametrize(
    "policy", ["mixed_float16", "float64", "bfloat16"], indirect=True
)
def test_other_global_policies_are_refused(policy):
    with pytest.raises(errors.UserError, match=f"policy is '{policy}'. Allow"):
        precisions.choose(None)
    with pytest.raises(errors.UserError, match="precision='half' is not known"):
        precisions.choose("half")
