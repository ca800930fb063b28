"""The update of questions with choices as one program that XLA compiles."""

import pytest

from tests.albert_tf.training import head_steps


@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("name", ["choices"])
def test_compiled_as_a_whole_or_not_makes_no_difference(
    small_config, name, parts
):
    head_steps.assert_compiling_changes_nothing(small_config, name, parts)
