"""Options of pretraining: stages, and what is usual."""

from tests.albert_tf.training import recipes

RTD = {"objective": "rtd"}


def test_levels_and_shares_are_stages():
    usual = recipes.make()
    assert usual.passages.levels == usual.passages.task_shares == ()
    found = recipes.make(
        **RTD,
        generator_sharing="all",
        generator_size=1.0,
        mask_levels="basic:9,phrase:5,entity",
        sentence_objective="sop,distance",
        task_stages="1:124999,99/2",
    ).passages
    assert found.levels == ((0, "basic"), (9, "phrase"), (14, "entity"))
    assert found.task_shares == ((0, "1"), (124_999, "99/2"))


def test_defaults_are_those_of_the_papers():
    """ALBERT's steps; ELECTRA's generator and factor."""
    usual = recipes.make()
    assert (usual.num_train_steps, usual.num_warmup_steps) == (125_000, 3125)
    rtd, token_factor = usual.rtd, usual.passages.token_factor
    assert (rtd.generator_size, rtd.replaced_token_factor) == (0.25, 50)
    factors = usual.masked_lm_factor, usual.sentence_factor, token_factor
    assert (usual.sentence_objective, *factors) == ("sop", 1, 1, 1)
