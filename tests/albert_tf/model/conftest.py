"""Shared by the tests of models."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _seeded():
    """New weights follow from a seed, where a test makes any."""
    if "tf_keras" in sys.modules:
        sys.modules["tf_keras"].utils.set_random_seed(1)
