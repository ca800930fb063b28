"""Steps that the program under test runs.

`make test-jax` runs the tests that need jax, and the compiler for TPUs.
"""

import pytest

from tests.exported_steps import EIGHT, export, write_records


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """The folder of a step, with batches."""
    return export(tmp_path_factory.mktemp("exported"))


@pytest.fixture(scope="session")
def for_eight(tmp_path_factory):
    """The folder of a step whose batches eight devices can share."""
    return export(tmp_path_factory.mktemp("eight"), EIGHT)


@pytest.fixture(scope="session")
def with_evaluation(tmp_path_factory):
    """The folder of a step with an evaluation."""
    folder = tmp_path_factory.mktemp("with_evaluation")
    records = write_records(folder)
    return export(folder, eval_batches_from=records)
