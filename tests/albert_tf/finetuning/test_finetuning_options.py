"""The options of finetuning: lengths, and what does not fit."""

import dataclasses

import pytest

from albert_tf.finetuning import finetuning_options
from tests.albert_tf.finetuning import small_runs
from tests.conftest import refused


@pytest.mark.parametrize(
    "values, expected",
    [
        ({"train_step": 7, "warmup_step": 3}, (7, 3)),
        # 100 records in batches of 8, three times.
        ({}, (37, 3)),
        ({"num_train_epochs": 0.5, "warmup_proportion": 0.5}, (6, 3)),
        ({"num_train_epochs": 1e-6}, (1, 0)),
        ({"train_step": 100}, (100, 10)),
        ({"warmup_step": 0}, (37, 0)),
    ],
)
def test_steps_follow_from_records_where_they_are_not_given(values, expected):
    assert finetuning_options.LengthOptions(**values).steps(100, 8) == expected


def test_warmup_longer_than_the_run_is_refused():
    length = finetuning_options.LengthOptions(train_step=5, warmup_step=6)
    with refused("`warmup_step=6` is more than"):
        length.steps(100, 8)


@pytest.mark.parametrize(
    ("rate", "factor"), [(None, 1.0), (1e-3, 1.0), (2e-4, 0.2), (0.0, 0.0)]
)
def test_the_encoders_rate_is_a_share_of_the_other(world, rate, factor):
    settings = small_runs.shared(
        world, "nowhere", learning_rate=1e-3, encoder_learning_rate=rate
    )
    assert settings.encoder_factor == pytest.approx(factor)


def test_usual_sizes_and_rates():
    fields = dataclasses.fields(finetuning_options.FinetuningOptions)
    usual = {field.name: field.default for field in fields}
    sizes = "train_batch_size", "eval_batch_size", "predict_batch_size"
    assert [usual[name] for name in sizes] == [32, 8, 8]
    assert (usual["num_runs"], usual["early_stopping_evaluations"]) == (1, 0)
    assert usual["optimizer"].optimizer == "adamw"
    assert usual["optimizer"].learning_rate == 5e-5
    assert usual["trainer"].save_checkpoints_steps == 1000


def test_dropout_of_the_recipe_wins_over_the_config(world, tmp_path):
    names = "hidden_dropout_prob", "attention_probs_dropout_prob"
    for name, other in (names, names[::-1]):
        settings = small_runs.shared(world, tmp_path, **{name: 0.25})
        config = settings.read_config()
        assert (getattr(config, name), getattr(config, other)) == (0.25, 0.0)
    settings = small_runs.shared(
        world, tmp_path, pooling="pair", num_hidden_layers=7
    )
    config = settings.read_config()
    assert (config.pooling, config.num_hidden_layers) == ("pair", 7)
    files = finetuning_options.FileOptions(settings, "a", test_file="c")
    assert files.sources == {"train": "a", "test": "c"}
