"""Two streams against transformers' XLNet, with equal weights in all layers.

`make test-torch`.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.execution import layer_stack
from albert_tf.model.network import attention_bias
from albert_tf.model.network.encoder import AlbertModel
from tests.albert_tf.model import passes
from tests.conftest import PARITY_ATOL, tiny_config

pytestmark = pytest.mark.torch

BATCH, LENGTH, ASKED = 2, 12, 3
