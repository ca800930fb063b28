"""Buckets of distances against transformers' T5.

`make test-torch`.
"""

import numpy as np
import pytest

from albert_tf.model.network import attention_bias

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("is_causal", [False, True])
def test_buckets_are_theirs(is_causal):
    import torch
    from transformers.models.t5 import modeling_t5

    distances = np.arange(-600, 601)
    theirs = modeling_t5.T5Attention._relative_position_bucket(
        torch.tensor(distances),
        bidirectional=not is_causal,
        num_buckets=attention_bias.NUM_BUCKETS,
        max_distance=attention_bias.MAX_DISTANCE,
    )
    found = attention_bias.bucket_ids(distances, is_causal)
    np.testing.assert_array_equal(found, theirs.numpy())
