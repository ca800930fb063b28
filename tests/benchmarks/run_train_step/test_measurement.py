"""What is printed of the speed."""

import pytest

from tests.exported_steps import BATCH, LENGTH, run_program


@pytest.mark.jax
def test_rates_follow_from_the_time_of_an_update(jax_python, exported):
    *lines, measured = run_program(
        jax_python, f"--program={exported}", "--steps=4", "--log_steps=3"
    )
    assert [line["step"] for line in lines] == [3, 4]
    seconds = measured["seconds_per_step"]
    assert measured["sequences_per_second"] == pytest.approx(BATCH / seconds)
    assert measured["tokens_per_second"] == pytest.approx(
        BATCH * LENGTH / seconds
    )
    assert measured["matrix_size"] == 64
    assert measured["share_of_matrix_rate"] == pytest.approx(
        measured["model_gigaflops_per_second"]
        / measured["matrix_gigaflops_per_second"]
    )
