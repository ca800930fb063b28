"""What a pretraining run refuses, and what it only warns of."""

import logging

import pytest
from absl import flags

from albert_tf import errors, options, records, run_pretraining
from tests.conftest import ROOT

RECIPES = sorted(
    path
    for path in (ROOT / "configs/pretraining").glob("*.flags")
    if "--train_batch_size" in path.read_text()
)


@pytest.fixture
def make():
    """Makes options: those of a good recipe, with some changed."""

    def make(**changes):
        return options.from_dict(
            run_pretraining.PretrainingOptions,
            {
                "albert_config_file": "config.json",
                "input_file": "records",
                "output_dir": "run",
                "max_seq_length": 128,
                "max_predictions_per_seq": 20,
                "train_batch_size": 256,
                "learning_rate": 4.4e-4,  # A quarter of the paper's.
                **changes,
            },
        )

    return make


def make_manifest(**changes):
    values = {
        "shards": ("a.tfrecord", "b.tfrecord"),
        "shard_bytes": (1, 1),
        "num_examples": 2,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20,
        "vocab_size": 400,
        "vocab_sha256": "",
        "random_seed": 1,
        "options": {"masked_lm_prob": 0.15},
        "versions": {},
    }
    return records.Manifest(**{**values, **changes})


@pytest.fixture
def warnings(caplog):
    """Returns the warnings about options and records."""

    def warnings(settings, *manifests):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "absl"):
            run_pretraining._warn(settings, list(manifests))
        return caplog.messages

    return warnings


@pytest.mark.parametrize(
    "changes",
    [
        {},
        # The square-root rule, and twice its rate.
        {"train_batch_size": 4096, "learning_rate": 0.00176},
        {"learning_rate": 8.8e-4},
        {"optimizer": "adamw", "learning_rate": 1e-4},
        {"optimizer": "adamw", "learning_rate": 1e-3, "train_batch_size": 32},
        {"do_eval": True, "eval_input_file": "other"},
        # No rate matters here.
        {
            **{"do_train": False, "do_eval": True, "eval_input_file": "other"},
            "train_batch_size": 4,
        },
        {"masked_lm_budget": 20, "vocab_file": "vocab.txt"},
    ],
)
def test_a_good_recipe_gives_no_warning(make, warnings, changes):
    has_masks = "masked_lm_budget" not in changes
    manifest = make_manifest(has_masks=has_masks)
    assert warnings(make(**changes), manifest) == []


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_our_recipes_give_no_warning(warnings, path):
    values = flags.FlagValues()
    options.define_flags(run_pretraining.PretrainingOptions, values)
    places = ["--input_file=a", "--output_dir=b", "--eval_input_file=c"]
    values(["program", *places, f"--flagfile={path}"])
    settings = options.from_flags(run_pretraining.PretrainingOptions, values)
    manifest = make_manifest(
        max_seq_length=settings.max_seq_length,
        max_predictions_per_seq=settings.masks.max_predictions_per_seq,
    )
    assert warnings(settings, manifest) == []


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (
            {"learning_rate": 0.00176},
            ("--learning_rate=0.00176 is much for batches of 256", "4.40e-04"),
        ),
        (
            {"learning_rate": 4.4e-4, "train_batch_size": 32},
            ("--learning_rate=0.00044 is much for batches of 32", "1.56e-04"),
        ),
        (
            {
                **{"optimizer": "adamw", "learning_rate": 0.00176},
                "train_batch_size": 32,
            },
            (
                "--learning_rate=0.00176 is much for --optimizer=adamw and "
                "batches of 32",
                "for lamb and 4096",
            ),
        ),
        (
            {"masked_lm_budget": 10, "vocab_file": "vocab.txt"},
            ("--masked_lm_prob=0.15 would hide 19 of 128", "budget=10"),
        ),
        (
            {
                **{"masked_lm_budget": 20, "vocab_file": "vocab.txt"},
                "masked_lm_prob": 0.3,
            },
            ("--masked_lm_prob=0.3 would hide 38 of 128", "budget=20"),
        ),
        ({"do_eval": True}, ("No --eval_input_file: evaluation measures",)),
    ],
)
def test_options_that_are_probably_not_meant(make, warnings, changes, parts):
    (warning,) = warnings(make(**changes))
    for part in parts:
        assert part in warning


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_predictions_per_seq": 10}, True),
        ({"max_predictions_per_seq": 19}, True),
        ({"max_predictions_per_seq": 20}, False),
        ({"max_predictions_per_seq": 10, "has_masks": False}, False),
        ({"max_predictions_per_seq": 10, "options": {}}, False),
    ],
)
def test_records_with_too_few_predictions(make, warnings, changes, said):
    manifest = make_manifest(max_seq_length=136, **changes)
    found = warnings(make(max_seq_length=136), make_manifest(), manifest)
    assert len(found) == said
    for warning in found:
        count = changes["max_predictions_per_seq"]
        assert "a.tfrecord, b.tfrecord were to hide 20 of 136" in warning
        assert f"hold only {count} predictions" in warning


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"masked_lm_factor": 0.0, "sentence_factor": 0.0},
            "--masked_lm_factor=0 and --sentence_factor=0: nothing would",
        ),
        (
            {"masked_lm_factor": 0.0, "sentence_objective": "none"},
            "--masked_lm_factor=0: nothing would be learned",
        ),
        (
            {"best_metric": "accuracy"},
            "--best_metric=accuracy is not measured.*=sop there are loss, "
            "masked_lm_loss, sentence_order_loss, masked_lm_accuracy, "
            "sentence_order_accuracy",
        ),
        (
            {
                **{"best_metric": "sentence_order_loss"},
                "sentence_objective": "nsp",
            },
            "--sentence_objective=nsp there are .* next_sentence_loss",
        ),
    ],
)
def test_wrong_objectives_are_refused(make, changes, message):
    with pytest.raises(errors.UserError, match=message):
        make(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"masked_lm_factor": 0.0},
        {"sentence_factor": 0.0},
        {"best_metric": "loss"},
        {"best_metric": "next_sentence_loss", "sentence_objective": "nsp"},
    ],
)
def test_objectives_that_leave_something_to_learn(make, changes):
    settings = make(**changes)
    assert settings.best_metric in ("loss", *settings.recipe.objective.names)
