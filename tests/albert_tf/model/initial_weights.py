"""What new variables must start from, for the tests of encoder and heads."""

import numpy as np

# A normal that is cut at two standard deviations keeps this share of one.
CUT = 0.88


def assert_initial(variables, stddev):
    """Biases and betas are 0, gammas 1, all else a truncated normal.

    Args:
        variables: Name to variable.
        stddev: Of the normal, before it is cut.
    """
    assert variables
    for name, variable in variables.items():
        value = variable.numpy()
        if name.endswith(("bias", "beta")):
            assert not value.any(), name
        elif name.endswith("gamma"):
            assert (value == 1).all(), name
        else:
            assert np.abs(value).max() <= 2 * stddev, name
            error = 5 / (2 * value.size) ** 0.5  # Five standard errors.
            assert abs(value.std() / (CUT * stddev) - 1) < error, name
