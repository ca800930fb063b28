"""Options of pretraining that do not fit together."""

import pytest

from albert_tf.common import errors
from tests.albert_tf.training import recipes

RTD = {"objective": "rtd"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"num_train_steps": 5, "num_warmup_steps": 6},
            "`num_warmup_steps=6` is more than the 5 steps of the run",
        ),
        ({"init_schedule": "continue"}, "=continue` is only used with `init_"),
        ({"word_embeddings_file": ""}, "`word_embeddings_file` is empty"),
        (
            {"word_embeddings_file": "words.npy", "init_checkpoint": "a"},
            "`word_embeddings_file=words.npy` does not go with",
        ),
        *(
            (
                {"sentence_objective": "sop,distance", "task_stages": wrong},
                f"`task_stages={wrong}` does not say how often each of",
            )
            for wrong in (
                "",
                "1",
                "1,1/1",
                "1:5,1/0",
                "1/1:5,1:5,1/1",
                "1:5,1/100",
            )
        ),
        (
            {"sentence_objective": "sop", "task_stages": "1:125000,1"},
            "begins 1 after 125000 steps, but the run has",
        ),
        (
            {
                "mask_levels": "basic:7,phrase:2,entity",
                "num_train_steps": 9,
                "num_warmup_steps": 0,
            },
            "begins entity after 9 steps, but the run has `num_train_steps=9`",
        ),
        *(
            ({"mask_levels": wrong}, f"`mask_levels={wrong}` is not some of")
            for wrong in (
                *("", "basic:9", "word", "basic,phrase", "basic:0,phrase"),
                *("basic:-1,phrase", "basic:x,phrase", "basic:9,"),
                "entity,basic:9",
            )
        ),
        (
            {"sentence_objective": "discourse"},
            "`markers_file` goes with `sentence_objective=discourse`",
        ),
        ({"markers_file": "m.txt"}, "`markers_file=m.txt` goes with `sentence"),
        (
            {"mask_levels": "basic", "objective": "plm"},
            "`mask_levels=basic` is only used with `objective=mlm or rtd`",
        ),
        (
            {"generator_size": 0.5},
            "`generator_size=0.5` is only used with `objective=rtd`",
        ),
        (
            {"generator_sharing": "none"},
            "=none` is only used with `objective=r",
        ),
        ({"replaced_token_factor": 2.0}, "=2.0` is only used with `objective="),
        (
            {"objective": "spans", "masked_lm_factor": 2.0},
            "`masked_lm_factor=2.0` is only used with `objective=mlm, rtd or",
        ),
        (
            {**RTD, "generator_sharing": "all", "generator_size": 0.5},
            "`generator_size=0.5` does not fit `generator_sharing=all`",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(values, message):
    with pytest.raises(errors.UserError, match=message):
        recipes.make(**values)


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
