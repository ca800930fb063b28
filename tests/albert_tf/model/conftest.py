"""Shared by the tests of models."""

import dataclasses
import sys

import pytest


@pytest.fixture(scope="session")
def small_config(small_config):
    """With an epsilon that counts."""
    return dataclasses.replace(small_config, layer_norm_eps=0.1)


@pytest.fixture(autouse=True)
def _seeded():
    """New weights follow from a seed, where a test makes any."""
    if "tf_keras" in sys.modules:
        sys.modules["tf_keras"].utils.set_random_seed(1)
