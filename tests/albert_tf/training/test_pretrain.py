"""What a pretraining run refuses, and what it only warns of."""

import dataclasses
import logging
import re

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.common import options, preemption
from albert_tf.data import packed_rows
from albert_tf.training import (
    distribution,
    pretrain,
    pretraining_options,
    run_folder,
    run_log,
    training_loop,
    validation,
)
from tests import record_files
from tests.albert_tf.data import short_records
from tests.albert_tf.training import tiny_manifests
from tests.conftest import ROOT, refused, tiny_config

RECIPES = sorted(
    path
    for path in (ROOT / "configs/pretraining").glob("*.flags")
    if "--train_batch_size" in path.read_text()
)


@pytest.fixture
def make():
    def make(**changes):
        return options.from_dict(
            pretraining_options.PretrainingOptions,
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


@pytest.fixture
def warnings(caplog):
    def warnings(settings, *manifests):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "absl"):
            pretrain._warn_of_settings(settings, list(manifests))
        return caplog.messages

    return warnings


@pytest.mark.parametrize(
    "changes",
    [
        {},
        # No rate matters here.
        {
            "do_train": False,
            "do_eval": True,
            "eval_input_file": "other",
            "train_batch_size": 4,
        },
        {"masked_lm_budget": 19, "vocab_file": "vocab.txt"},
    ],
)
def test_a_good_recipe_gives_no_warning(make, warnings, changes):
    has_masks = "masked_lm_budget" not in changes
    manifest = tiny_manifests.make(has_masks=has_masks)
    assert warnings(make(**changes), manifest) == []


@pytest.mark.parametrize("pack", [False, True])
def test_the_log_knows_what_a_step_costs(make, small_config, tmp_path, pack):
    """Of packed rows, the last layer is computed at every first token."""
    settings = make(pack_sequences=pack, output_dir=str(tmp_path))
    one = tf.distribute.get_strategy()
    log = pretrain._open_log(settings, small_config, one, 1.5)
    log.write("train", 1, {"loss": 1.0}, steps_per_second=2.0)
    (line,) = run_log.read(str(tmp_path))
    assert line["examples_per_second"] == 2 * 256 * 1.5
    assert line["tokens_per_second"] == pytest.approx(2 * 256 * 128)
    instances = packed_rows.MAX_INSTANCES if pack else 1
    flops = 3 * small_config.forward_flops(128, 20, instances + 20)
    assert line["gigaflops"] == pytest.approx(2 * 256 * flops / 1e9)


def test_only_a_new_training_reads_word_embeddings(
    make, small_config, tmp_path
):
    path, folder = tmp_path / "words.npy", tmp_path / "run"
    folder.mkdir()
    settings = make(word_embeddings_file=str(path), output_dir=str(folder))
    with refused(r"words\.npy` is not a file"):
        pretrain._read_word_embeddings(settings, small_config)
    shape = small_config.vocab_size, small_config.embedding_size
    np.save(path, np.ones(shape))
    assert pretrain._read_word_embeddings(settings, small_config).shape == shape
    (folder / "checkpoint").touch()
    path.unlink()
    assert pretrain._read_word_embeddings(settings, small_config) is None


def test_rows_of_several_examples_have_their_first_tokens_only(
    make, small_config
):
    config = dataclasses.replace(
        small_config, pooling="pair", max_position_embeddings=128
    )
    settings = make(pack_sequences=True)
    with refused("not fit pooling='pair'"):
        pretrain._prepare_data(settings, config)
    settings = make(pack_sequences=True, sentence_objective="none")
    with refused("matches no file"):
        pretrain._prepare_data(settings, config)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_our_recipes_give_no_warning(warnings, path):
    places = ["--input_file=a", "--output_dir=b", "--eval_input_file=c"]
    places += ["--vocab_file=d", "--do_eval"]
    settings = options.parse(
        pretraining_options.PretrainingOptions, [*places, f"--flagfile={path}"]
    )
    manifest = tiny_manifests.make(
        max_seq_length=settings.data.max_seq_length,
        max_predictions_per_seq=settings.data.masks.max_predictions_per_seq,
        has_masks=not settings.data.masked_lm_budget,
    )
    assert warnings(settings, manifest) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 0.00176}, "=0.00176` is much for batches of 256"),
        (
            {"masked_lm_budget": 18, "vocab_file": "vocab.txt"},
            "`masked_lm_prob=0.15` would hide 19 of 128.*budget=18",
        ),
        ({"do_eval": True}, "No `eval_input_file`: evaluation measures"),
        (
            {
                "records": "passages",
                "masked_lm_budget": 20,
                "vocab_file": "vocab.txt",
                "do_lower_case": False,
                "token_objective": "capitalization",
            },
            "`token_objective=capitalization`: pieces of this vocabulary have",
        ),
        (
            {"sentence_factor": 2.0, "sentence_objective": "none"},
            "`sentence_factor=2` has no effect",
        ),
        ({"token_factor": 2.0}, "`token_factor=2` has no effect"),
        (
            {
                "masked_lm_budget": 20,
                "max_predictions_per_seq": 40,
                "vocab_file": "vocab.txt",
            },
            "`max_predictions_per_seq=40` has no effect: .*_budget=20` so many",
        ),
        ({"tpu_name": "a"}, "`tpu_name` has no effect without `use_tpu"),
        (
            {"best_metric": "loss"},
            "`best_metric` has no effect without `do_eval",
        ),
        (
            {"objective": "rtd", "masked_lm_factor": 0.0},
            "The factor of masked_lm_loss is 0: it is not learned",
        ),
        (
            {"objective": "rtd", "replaced_token_factor": 0.0},
            "The factor of replaced_token_loss is 0",
        ),
    ],
)
def test_options_that_are_probably_not_meant(make, warnings, changes, message):
    (warning,) = warnings(make(**changes))
    assert re.search(message, warning)
    few = tiny_manifests.make(max_predictions_per_seq=10)
    (warning,) = warnings(make(), tiny_manifests.make(), few)
    assert "hold only 10 predictions" in warning


def test_targets_of_spans_need_positions(make, small_config):
    given = {
        "objective": "spans",
        "sentence_objective": "none",
        "vocab_file": "vocab.txt",
        "max_seq_length": 48,
    }
    # 47 pieces, 16 ids of spans and the end are 64, as the positions.
    with refused("is not a file"):
        pretrain._prepare_data(make(**given, masked_lm_budget=47), small_config)
    with refused("=48` gives targets of 65 tok"):
        pretrain._prepare_data(make(**given, masked_lm_budget=48), small_config)


@pytest.fixture
def make_short(make, tmp_path):
    """Makes options that read records, and write into a folder `run`."""
    config = tiny_config(vocab_size=short_records.VOCABULARY)
    (tmp_path / "config.json").write_text(config.to_json())
    records = short_records.encode(short_records.make(8))
    record_files.write(tmp_path / "records", records)

    def make_short(**changes):
        return make(
            albert_config_file=str(tmp_path / "config.json"),
            input_file=str(tmp_path / "records"),
            output_dir=str(tmp_path / "run"),
            max_seq_length=short_records.LENGTH,
            max_predictions_per_seq=short_records.PREDICTIONS,
            train_batch_size=4,
            eval_batch_size=4,
            **changes,
        )

    return make_short


@pytest.mark.parametrize(
    ("objective", "size", "message"),
    [
        ("mlm", 401, "has 400 pieces, .* counts pieces. .* vocab_size=400, or"),
        ("mlm", 300, "has 400 pieces, .* has vocab_size=300, "),
        ("spans", 400, "and 100 ids that stand for spans. .*_size=500, or"),
    ],
)
def test_a_vocabulary_has_the_size_of_the_model(
    make, small_config, tiny_vocab, objective, size, message
):
    config = dataclasses.replace(small_config, vocab_size=size)
    settings = make(
        objective=objective,
        sentence_objective="none",
        masked_lm_budget=20,
        spm_model_file=tiny_vocab,
    )
    fitting = dataclasses.replace(
        config, vocab_size=400 + settings.recipe.sentinels
    )
    pretrain._check_vocab_size(settings, fitting)
    with refused(message):
        pretrain._check_vocab_size(settings, config)


def test_a_run_checks_the_size_of_its_vocabulary(make_short, tiny_vocab):
    """Its records have no manifest that tells it."""
    settings = make_short(
        spm_model_file=tiny_vocab, num_train_steps=1, num_warmup_steps=0
    )
    with refused(".model` has 400 pieces, but "):
        pretrain.run(settings)


def test_a_follower_refuses_the_run_of_others_that_begins_later(
    make_short, tmp_path, monkeypatch
):
    config = tiny_config(
        vocab_size=short_records.VOCABULARY, num_attention_heads=4
    )
    theirs = make_short()

    def begin(seconds):
        run_folder.RunStart(
            theirs.output_dir,
            "run_pretraining",
            theirs,
            config,
            theirs.data.vocabulary,
        ).write_options()
        (tmp_path / "run/model.ckpt-1.index").touch()
        monkeypatch.setattr(validation.time, "sleep", lambda _: pytest.fail())

    monkeypatch.setattr(validation.time, "sleep", begin)
    follower = make_short(do_train=False, do_eval=True, follow_checkpoints=True)
    with refused("another run:\n.*num_attention_heads was 4"):
        pretrain.run(follower)


def test_a_lost_worker_ends_a_run_wherever_it_is(make_short, monkeypatch):
    def gone(*_, **__):
        raise tf.errors.UnavailableError(None, None, "no answer")

    monkeypatch.setattr(training_loop.Trainer, "restore_or_initialize", gone)
    monkeypatch.setattr(distribution.Workers, "is_alone", False)
    with pytest.raises(SystemExit) as ended:
        pretrain.run(make_short())
    assert ended.value.code == preemption.EXIT_CODE
