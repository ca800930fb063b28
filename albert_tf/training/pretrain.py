"""Pretrain: find the records, make model and optimizer, train, evaluate."""

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.common import errors, files, folder_lock, options, preemption
from albert_tf.data import (
    drawing,
    layouts,
    manifests,
    masking,
    packed_rows,
    record_check,
)
from albert_tf.model import compatibility
from albert_tf.model.config import AlbertConfig
from albert_tf.model.optimizers import optimization
from albert_tf.text import tokenization
from albert_tf.training import (
    distribution,
    memory_check,
    pretraining_data,
    pretraining_drawer,
    pretraining_recipe,
    processors,
    run_card,
    run_folder,
    run_log,
    training_loop,
    word_embeddings,
)
from albert_tf.training.pretraining_options import PretrainingOptions


@preemption.exiting_at_once()
def run(settings: PretrainingOptions) -> None:
    settings = processors.settle_precision(settings, settings.output_dir)
    config = AlbertConfig.from_json_file(settings.albert_config_file)
    # Refuses a name that is not measured.
    pretraining_recipe.best_metric(settings.recipe, settings.best_metric)
    # First of all: several workers must meet before TensorFlow does anything.
    strategy = distribution.make_strategy(settings.devices)
    data = _prepare_data(settings, config)
    vectors = _read_word_embeddings(settings, config)
    path = settings.recipe.word_embeddings_file if vectors is not None else None
    run_folder.check_start(
        settings.output_dir,
        settings.recipe.init.init_checkpoint,
        settings.data.vocabulary,
        {**data.vocab_hashes, **manifests.embeddings_vocab_hashes(path)},
    )
    _check_vocab_size(settings, config)
    if settings.do_train:
        run_folder.check_same_data(
            settings.output_dir, manifests.fingerprint(data.train_paths)
        )
    _warn_of_settings(settings, data.manifests)
    _check_batch_sizes(settings, config, strategy)
    is_chief = distribution.is_chief(strategy)
    with (
        _lock_folder(settings) if is_chief else contextlib.nullcontext(),
        distribution.Workers(strategy).ending_together(),
    ):
        start = run_folder.RunStart(
            settings.output_dir,
            "run_pretraining",
            settings,
            config,
            pretraining_data.with_record_settings(
                settings.data.vocabulary, data.manifests
            ),
            data.vocab_hashes,
        )
        if is_chief and not settings.follow_checkpoints:
            start.write_options()
        else:
            start.checked_options()
        data.warn_of_full_rows()
        _train_and_evaluate(
            settings, config, strategy, data, vectors, start.checked_options
        )


def _read_word_embeddings(
    settings: PretrainingOptions, config: AlbertConfig
) -> np.ndarray | None:
    """Return a new run's word embeddings from a file, [V, E], if it has one."""
    path = settings.recipe.word_embeddings_file
    is_new = settings.do_train and not run_folder.has_checkpoint(
        settings.output_dir
    )
    return word_embeddings.read(path, config) if path and is_new else None


def _check_vocab_size(
    settings: PretrainingOptions, config: AlbertConfig
) -> None:
    """Refuse a vocabulary whose pieces, with sentinels, are not vocab_size."""
    vocabulary = settings.data.vocabulary
    if not vocabulary.path:
        return
    pieces = tokenization.load(vocabulary).vocab_size
    needed_size = pieces + settings.recipe.sentinels
    if needed_size != config.vocab_size:
        counted = "pieces"
        if settings.recipe.sentinels:
            counted += (
                f" and {settings.recipe.sentinels} ids that stand for spans"
            )
        raise errors.UserError(
            f"`{vocabulary.kind}={vocabulary.path}` has {pieces} pieces, but "
            f"`albert_config_file={settings.albert_config_file}` has "
            f"vocab_size={config.vocab_size}, which counts {counted}. Use a "
            f"config with vocab_size={needed_size}, or the model's vocabulary."
        )


@contextlib.contextmanager
def _lock_folder(settings: PretrainingOptions) -> Iterator[None]:
    """Lock the run's folder: one process may train, another may evaluate."""
    folder = settings.output_dir
    follows, evaluates = settings.follow_checkpoints, settings.do_eval
    with (
        run_folder.hold(folder, is_wanted=not follows),
        folder_lock.hold(
            folder,
            "output_dir",
            remedy="One process at a time evaluates a run: train without "
            "`do_eval`, or wait for it or end it.",
            lock=os.path.join(folder, f".evaluation{folder_lock.NAME}"),
        )
        if evaluates
        else contextlib.nullcontext(),
    ):
        yield


def _train_and_evaluate(
    settings: PretrainingOptions,
    config: AlbertConfig,
    strategy: tf.distribute.Strategy,
    data: pretraining_data.PretrainingData,
    vectors: np.ndarray | None,
    check_folder: Callable[[], object],
) -> None:
    recipe = settings.recipe
    trainer = _make_trainer(settings, config, strategy, vectors)
    log = _open_log(settings, config, strategy, data.examples_per_row)
    provenance = _collect_provenance(settings, config, trainer.model, data)

    def evaluate() -> dict[str, float]:
        sizes = settings.eval_batch_size, settings.max_eval_steps
        return trainer.evaluate(data.evaluation_batches(*sizes))

    def warn_of_plateau() -> None:
        losses = log.column("train", "masked_lm_loss")
        pretraining_recipe.warn_of_plateau(
            recipe, losses, provenance.entropy_of_labels
        )

    validation = trainer.validation(
        log,
        evaluate,
        pretraining_recipe.best_metric(recipe, settings.best_metric),
        f"{settings.max_eval_steps}x{settings.eval_batch_size} "
        f"{manifests.fingerprint(data.eval_paths)[:12]}",
    )
    with data.naming_damage():
        if settings.do_train:
            log.start(trainer.step, recipe.num_train_steps, provenance)
            trainer.train(
                data.training_batches(settings.train_batch_size, trainer.step),
                recipe.num_train_steps,
                log,
                validation if settings.do_eval else None,
                warn_of_plateau,
            )
        if settings.follow_checkpoints:
            logging.info("Waiting for checkpoints in %s.", settings.output_dir)
            validation.follow(recipe.num_train_steps, check_folder)
        if settings.do_eval:
            trainer.restore_best()
        metrics = evaluate() if settings.do_eval else {}
    if distribution.is_chief(strategy):
        _write_results(settings, trainer.step, metrics)


def _collect_provenance(
    settings: PretrainingOptions,
    config: AlbertConfig,
    model: keras.Model,
    data: pretraining_data.PretrainingData,
) -> run_log.Provenance:
    """Return machine, versions, data and baselines of the run, and log them."""
    digest = manifests.fingerprint(data.train_paths)
    provenance = run_card.provenance(model, data.description, digest)
    provenance = dataclasses.replace(provenance, **data.unigram_baselines)
    logging.info("%s", run_card.summary(config, provenance))
    system = pretraining_recipe.system_of(settings.recipe)
    if generator := system.describe(config):
        logging.info("%s", generator)
    return provenance


def _make_trainer(
    settings: PretrainingOptions,
    config: AlbertConfig,
    strategy: tf.distribute.Strategy,
    vectors: np.ndarray | None,
) -> training_loop.Trainer:
    recipe, trainer_options = settings.recipe, settings.trainer
    keras.utils.set_random_seed(trainer_options.seed)
    with strategy.scope():
        model = pretraining_recipe.make_model(recipe, config, trainer_options)
        if vectors is not None:
            word_embeddings.assign(model, vectors)
        optimizer = optimization.make_optimizer(
            recipe.optimizer,
            recipe.num_train_steps,
            recipe.num_warmup_steps,
            by_the_clock=trainer_options.max_minutes > 0,
            precision=trainer_options.precision,
        )
    trainer = training_loop.Trainer(
        model,
        optimizer,
        pretraining_recipe.make_objective(recipe),
        settings.output_dir,
        trainer_options,
    )
    trainer.restore_or_initialize(
        recipe.init, continue_schedule=recipe.init_schedule == "continue"
    )
    continues = recipe.init_schedule == "continue" and not trainer.resumed_from
    is_over = trainer.step >= recipe.num_train_steps
    if settings.do_train and continues and is_over:
        raise errors.UserError(
            f"`init_checkpoint={recipe.init.init_checkpoint}` stands at step "
            f"{trainer.step}, and `num_train_steps={recipe.num_train_steps}` "
            "is not above: with `init_schedule=continue` nothing is left to "
            "train. Set more steps, or `init_schedule=restart`."
        )
    return trainer


def _open_log(
    settings: PretrainingOptions,
    config: AlbertConfig,
    strategy: tf.distribute.Strategy,
    examples_per_row: float,
) -> run_log.RunLog:
    folder = settings.output_dir
    if settings.follow_checkpoints:
        folder = os.path.join(folder, run_log.EVALUATION_FOLDER)
    flops = pretraining_recipe.forward_flops(
        settings.recipe,
        config,
        settings.data.max_seq_length,
        settings.data.num_predictions,
        packed_rows.MAX_INSTANCES if settings.data.pack_sequences else 1,
    )
    cost = run_log.ExampleCost(
        settings.data.max_seq_length / examples_per_row,
        3 * flops / examples_per_row,
    )
    examples = settings.train_batch_size * examples_per_row
    folder = distribution.worker_folder(strategy, folder)
    return run_log.RunLog(folder, examples, cost)


def _write_results(
    settings: PretrainingOptions, step: int, metrics: dict[str, float]
) -> None:
    # A training whose checkpoints were followed writes its own card first.
    with (
        folder_lock.hold(settings.output_dir, "output_dir", math.inf)
        if settings.follow_checkpoints
        else contextlib.nullcontext()
    ):
        if settings.do_eval:
            run_log.write_eval_results(settings.output_dir, step, metrics)
        logging.info("Wrote %s.", run_card.write(settings.output_dir))


def _check_batch_sizes(
    settings: PretrainingOptions,
    config: AlbertConfig,
    strategy: tf.distribute.Strategy,
) -> None:
    """Refuse batch sizes that do not divide, or do not fit into memory."""
    trainer, num_predictions = settings.trainer, settings.data.num_predictions
    system = pretraining_recipe.system_of(settings.recipe)
    step = memory_check.StepSize(
        config,
        settings.data.max_seq_length,
        num_predictions=num_predictions,
        precision=trainer.precision,
        recompute=trainer.recompute,
        microbatches=trainer.gradient_accumulation_steps,
        extra_tokens=system.count_extra_tokens(num_predictions),
    )
    for name, microbatches, is_used in (
        ("train_batch_size", step.microbatches, settings.do_train),
        ("eval_batch_size", 1, settings.do_eval),
    ):
        size = getattr(settings, name)
        distribution.check_batch(strategy, size, name, microbatches)
        if is_used:
            memory_check.check(step, strategy, name, size)


def _check_model(settings: PretrainingOptions, config: AlbertConfig) -> None:
    """Refuse a config whose pooling or positions do not suit the options."""
    data, recipe = settings.data, settings.recipe
    has_sentences = recipe.sentence_objective != "none"
    if data.pack_sequences and has_sentences and config.pooling != "cls":
        raise errors.UserError(
            f"`pack_sequences=True` does not fit pooling={config.pooling!r} in "
            f"`albert_config_file={settings.albert_config_file}`: rows of "
            "several examples have a vector for each example's first token "
            "only. Set `sentence_objective=none`, or leave `pack_sequences` "
            "out."
        )
    compatibility.check_length(
        data.max_seq_length, config, settings.albert_config_file
    )
    system = pretraining_recipe.system_of(recipe)
    target_length = system.count_extra_tokens(data.num_predictions)
    longest = config.max_position_embeddings
    if recipe.objective == "spans" and target_length > longest:
        raise errors.UserError(
            f"`masked_lm_budget={data.masked_lm_budget}` gives targets of "
            f"{target_length} tokens, longer than the {longest} positions of "
            f"{settings.albert_config_file}. Use less, or a model with more "
            "max_position_embeddings."
        )


def _make_drawer(
    settings: PretrainingOptions, config: AlbertConfig
) -> drawing.Drawer | None:
    if not settings.data.masked_lm_budget:
        return None
    return pretraining_drawer.make_drawer(
        settings.recipe,
        dataclasses.replace(
            settings.data.masks,
            max_predictions_per_seq=settings.data.masked_lm_budget,
        ),
        tokenization.load(settings.data.vocabulary),
        records=settings.data.records,
        max_seq_length=settings.data.max_seq_length,
        num_segments=config.type_vocab_size,
    )


def _prepare_data(
    settings: PretrainingOptions, config: AlbertConfig
) -> pretraining_data.PretrainingData:
    """Check files and records against options and config; read no batch yet."""
    _check_model(settings, config)
    records, recipe = settings.data, settings.recipe
    if records.vocabulary.kind and records.vocabulary.path:
        files.require_file(records.vocabulary.path, records.vocabulary.kind)
    paths = {
        name: files.expand_patterns(pattern, name, files.BESIDE_RECORDS)
        for name, pattern in (
            ("input_file", records.input_file),
            ("eval_input_file", records.eval_input_file),
        )
        if pattern is not None
    }
    training = paths["input_file"]
    evaluation = paths.get("eval_input_file", training)
    record_manifests = _check_records(settings, config, training, evaluation)
    drawer = _make_drawer(settings, config)
    data = pretraining_data.PretrainingData(
        training,
        evaluation,
        record_manifests,
        layouts.for_model(
            records.layout, config.vocab_size, config.type_vocab_size
        ),
        drawer,
        settings.trainer.seed,
        pack=records.pack_sequences and settings.do_train,
    )
    data.check_first_records()
    for name in paths if settings.do_eval else ("input_file",):
        pretraining_drawer.check_documents(drawer, paths[name], name)
        pretraining_drawer.check_sentences(drawer, paths[name], name)
        pretraining_drawer.check_markers(recipe, drawer, paths[name], name)
    return data


def _check_records(
    settings: PretrainingOptions,
    config: AlbertConfig,
    training: Sequence[str],
    evaluation: Sequence[str],
) -> list[manifests.Manifest]:
    """Refuse records that do not fit the options; return their manifests."""
    records, recipe = settings.data, settings.recipe
    expected = record_check.Expected(
        records.max_seq_length,
        records.masks.max_predictions_per_seq,
        config.vocab_size,
        has_masks=not records.masked_lm_budget,
        kind=records.records,
        sentinels=recipe.sentinels,
    )
    checked = record_check.check_records(training, expected)
    more = record_check.check_records(evaluation, expected, "eval_input_file")
    checked += [manifest for manifest in more if manifest not in checked]
    for manifest in checked:
        pretraining_data.check_normalization(records.vocabulary, manifest)
        pretraining_data.check_labels(
            recipe.sentence_objective, manifest, training
        )
    pretraining_data.check_marks(recipe, [*training, *evaluation])
    return checked


def _warn_of_unused_options(settings: PretrainingOptions) -> None:
    devices, values = settings.devices, options.to_dict(settings)
    for task in ("sentence", "token"):
        factor = values[f"{task}_factor"]
        if factor != 1 and values[f"{task}_objective"] == "none":
            logging.warning(
                "`%s_factor=%g` has no effect: `%s_objective=none` leaves out "
                "the loss that it multiplies.",
                task,
                factor,
                task,
            )
    budget = settings.data.masked_lm_budget
    predictions = settings.data.masks.max_predictions_per_seq
    usual = masking.MaskingOptions.max_predictions_per_seq
    if budget and predictions not in (budget, usual):
        logging.warning(
            "`max_predictions_per_seq=%d` has no effect: with "
            "`masked_lm_budget=%d` so many pieces are hidden at most.",
            predictions,
            budget,
        )
    for name in ("eval_input_file", "best_metric"):
        if not settings.do_eval and values[name] is not None:
            logging.warning("`%s` has no effect without `do_eval`.", name)
    if devices.tpu_name and not devices.on_tpu:
        logging.warning("`tpu_name` has no effect without `use_tpu`.")


def _warn_of_settings(
    settings: PretrainingOptions, record_manifests: Sequence[manifests.Manifest]
) -> None:
    """Warn of options that probably spoil a run, before it starts."""
    if settings.do_train:
        pretraining_recipe.warn_of_learning_rate(
            settings.recipe.optimizer, settings.train_batch_size
        )
    recipe = settings.recipe
    _warn_of_unused_options(settings)
    if "capitalization" in recipe.passages.token_objective and (
        settings.data.vocabulary.resolved().do_lower_case is False
    ):
        logging.warning(
            "`token_objective=%s`: pieces of this vocabulary have upper-case "
            "letters themselves, so there is nothing to learn about them.",
            recipe.passages.token_objective,
        )
    for name, factor in pretraining_recipe.make_objective(
        recipe
    ).losses.items():
        if not factor:
            logging.warning(
                "The factor of %s is 0: it is not learned, only measured.", name
            )
    budget = settings.data.masked_lm_budget
    masked = settings.data.masks.masked_lm_prob * settings.data.max_seq_length
    if budget and masked > budget + 1:
        logging.warning(
            "`masked_lm_prob=%g` would hide %.0f of %d pieces, but "
            "`masked_lm_budget=%d` lets only so many be. Give a larger one.",
            settings.data.masks.masked_lm_prob,
            masked,
            settings.data.max_seq_length,
            budget,
        )
    for manifest in record_manifests:
        pretraining_data.warn_of_lost_masks(manifest)
    if settings.do_eval and settings.data.eval_input_file is None:
        logging.warning(
            "No `eval_input_file`: evaluation measures on `input_file`, which "
            "says nothing about text that was not trained on."
        )
