"""Pretrain ALBERT on TFRecords: masked words and order of sentences.

    python -m albert_tf.run_pretraining \
        --flagfile=configs/pretraining/tiny.flags

Started again with the same options, it goes on from the last checkpoint of
--output_dir.
"""

import contextlib
import dataclasses
import math
import os

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import (
    checkpoints,
    distribution,
    errors,
    files,
    folder_lock,
    inputs,
    masking,
    memory_check,
    modeling,
    optimization,
    options,
    preemption,
    pretraining_recipe,
    ranges,
    records,
    run_card,
    run_folder,
    run_log,
    step_memory,
    tokenization,
    training,
)
from albert_tf.options import checked, option

# The batch that the default learning rate was found for. Source: ALBERT §4.1.
_PAPER_BATCH = 4096
_PAPER_RATE = 0.00176
# From so many times the rate of the square-root rule on, a warning.
_FAR = 2.5


@dataclasses.dataclass(frozen=True)
@checked
class PretrainingOptions:
    """Options of run_pretraining."""

    albert_config_file: str = option(
        help="JSON file with the architecture.", may_change=True
    )
    input_file: str = option(
        help="TFRecords to train on: files or glob patterns, with commas.",
        may_change=True,
    )
    output_dir: str = option(
        help="Folder for checkpoints, logs and the run card.", may_change=True
    )
    eval_input_file: str | None = option(
        None,
        "TFRecords to evaluate on. Default: --input_file, as in the original, "
        "which measures on training data.",
        may_change=True,
    )
    max_seq_length: int = option(
        512, "Tokens per example, as in the records.", within=ranges.TOKENS
    )
    masked_lm_budget: int = option(
        0,
        "Most pieces to hide in a sequence, for records that hold no masks "
        "(--masking_time=training of the writer): they are masked afresh "
        "every time. 0: the records hold masks, and the options of masking "
        "say nothing but --max_predictions_per_seq, which they must have.",
        within=ranges.Range(0, 2**16),
    )
    do_train: bool = option(True, "Whether to train.", may_change=True)
    do_eval: bool = option(False, "Whether to evaluate.", may_change=True)
    train_batch_size: int = option(
        4096, "Examples per step, all replicas.", within=ranges.BATCH
    )
    eval_batch_size: int = option(
        64,
        "Examples per evaluation batch, all replicas.",
        within=ranges.BATCH,
        may_change=True,
    )
    max_eval_steps: int = option(
        100,
        "Batches per evaluation, at most.",
        within=ranges.STEPS,
        may_change=True,
    )
    best_metric: str = option(
        "masked_lm_accuracy",
        "Number of the evaluation that chooses model.ckpt-best: a loss or an "
        "accuracy.",
        may_change=True,
    )
    follow_checkpoints: bool = option(
        False,
        "With --do_eval and --nodo_train: evaluate every checkpoint that "
        "another process writes into --output_dir, until that of "
        "--num_train_steps.",
        may_change=True,
    )
    recipe: pretraining_recipe.RecipeOptions = dataclasses.field(
        default_factory=pretraining_recipe.RecipeOptions
    )
    # Optional: checked against the records, and copied into the folder of the
    # run so that export finds it.
    vocabulary: tokenization.VocabularyOptions = dataclasses.field(
        default_factory=tokenization.VocabularyOptions
    )
    masks: masking.MaskingOptions = dataclasses.field(
        default_factory=masking.MaskingOptions
    )
    trainer: training.TrainerOptions = dataclasses.field(
        default_factory=training.TrainerOptions
    )
    devices: distribution.DistributionOptions = dataclasses.field(
        default_factory=distribution.DistributionOptions
    )

    def __post_init__(self) -> None:
        if not (self.do_train or self.do_eval):
            raise errors.UserError(
                "Neither --do_train nor --do_eval is set. Set at least one."
            )
        self._check_objective()
        self._check_masking()
        if self.follow_checkpoints and (self.do_train or not self.do_eval):
            raise errors.UserError(
                "--follow_checkpoints evaluates what another process trains. "
                "Give it with --do_eval and --nodo_train."
            )

    def _check_objective(self) -> None:
        recipe = self.recipe
        trained = {"masked_lm_factor": recipe.masked_lm_factor}
        if recipe.sentence_objective != "none":
            trained["sentence_factor"] = recipe.sentence_factor
        if not any(trained.values()):
            raise errors.UserError(
                f"{' and '.join(f'--{n}=0' for n in trained)}: nothing would "
                "be learned. Leave one of them above 0."
            )
        names = ("loss", *recipe.objective.names)
        if self.best_metric not in names:
            raise errors.UserError(
                f"--best_metric={self.best_metric} is not measured. With "
                f"--sentence_objective={recipe.sentence_objective} there are "
                f"{', '.join(names)}."
            )

    @property
    def num_predictions(self) -> int:
        """Positions that the masked-word head looks at."""
        return self.masked_lm_budget or self.masks.max_predictions_per_seq

    def _check_masking(self) -> None:
        """Refuse options of masking where nothing is masked."""
        plain = masking.MaskingOptions(
            max_predictions_per_seq=self.masks.max_predictions_per_seq
        )
        if not self.masked_lm_budget:
            for name, value in options.to_dict(self.masks).items():
                if value != getattr(plain, name):
                    raise errors.UserError(
                        f"--{name}={value} says how training masks, but the "
                        "records hold masks. Drop it, or give "
                        "--masked_lm_budget and records without masks."
                    )
            return
        self.vocabulary.require()
        if self.masks.do_permutation:
            raise errors.UserError(
                "--do_permutation is not done in training. Drop it, or write "
                "records with masks."
            )

    @property
    def layout(self) -> records.Layout:
        """Layout of the records."""
        layout = records.pretraining_layout(
            self.max_seq_length, self.masks.max_predictions_per_seq
        )
        return (
            records.without_masks(layout) if self.masked_lm_budget else layout
        )

    def make_masker(self) -> masking.Masker | None:
        """Return what masks in training, if anything does."""
        if not self.masked_lm_budget:
            return None
        tokenizer = tokenization.load(self.vocabulary)
        return masking.Masker(
            dataclasses.replace(
                self.masks, max_predictions_per_seq=self.masked_lm_budget
            ),
            masking.Vocabulary(
                tokenizer.vocab_size,
                tokenizer.cls_id,
                tokenizer.sep_id,
                tokenizer.mask_id,
                np.zeros(0, np.uint8),  # The records say where words start.
            ),
        )


@preemption.leaving_at_once()
def run(settings: PretrainingOptions) -> None:
    """Train and evaluate as the options say."""
    config = modeling.AlbertConfig.from_json_file(settings.albert_config_file)
    # First of all: several workers must meet before TensorFlow does anything.
    strategy = distribution.make_strategy(settings.devices)
    data = _find_data(settings, config)
    run_folder.check_start(
        settings.output_dir,
        settings.recipe.init.init_checkpoint,
        settings.vocabulary,
    )
    masker = settings.make_masker()
    _warn(settings, data.manifests)
    distribution.check_batch(
        strategy,
        settings.train_batch_size,
        "train_batch_size",
        settings.trainer.gradient_accumulation_steps,
    )
    distribution.check_batch(
        strategy, settings.eval_batch_size, "eval_batch_size"
    )
    _check_memory(settings, config, strategy)
    with _hold_folder(settings, strategy):
        _run_in_folder(settings, config, strategy, data, masker)


def _hold_folder(
    settings: PretrainingOptions, strategy: tf.distribute.Strategy
) -> contextlib.AbstractContextManager[None]:
    """Keep other processes out; of several workers the first one does.

    Who follows a training keeps other followers out of its own folder.
    """
    folder = settings.output_dir
    if settings.follow_checkpoints:
        folder = os.path.join(folder, run_log.EVALUATION_FOLDER)
    if not distribution.is_chief(strategy):
        return contextlib.nullcontext()
    return folder_lock.hold(folder, "output_dir")


def _run_in_folder(
    settings: PretrainingOptions,
    config: modeling.AlbertConfig,
    strategy: tf.distribute.Strategy,
    data: "_Data",
    masker: masking.Masker | None,
) -> None:
    """Train and evaluate in a folder that nobody else writes to."""
    is_chief = distribution.is_chief(strategy)
    writes = is_chief and not settings.follow_checkpoints
    (run_folder.claim if writes else run_folder.check_same)(
        settings.output_dir,
        "run_pretraining",
        settings,
        config,
        settings.vocabulary,
    )

    trainer = _make_trainer(settings, config, strategy)
    folder = distribution.worker_folder(strategy, settings.output_dir)
    if settings.follow_checkpoints:
        folder = os.path.join(folder, run_log.EVALUATION_FOLDER)
    log = run_log.RunLog(
        folder,
        settings.train_batch_size,
        run_log.Work(
            settings.max_seq_length,
            3
            * config.forward_flops(
                settings.max_seq_length, settings.num_predictions
            ),
        ),
    )
    facts = run_card.environment(trainer.model, data.description)
    facts[run_log.TRAINING_DATA] = records.fingerprint(data.training)
    logging.info("%s", run_card.summary(config, facts))

    def evaluate() -> dict[str, float]:
        return trainer.evaluate(
            inputs.evaluation_dataset(
                data.evaluation,
                settings.layout,
                settings.eval_batch_size,
                settings.max_eval_steps,
                seed=settings.trainer.seed,
                masker=masker,
            )
        )

    with inputs.naming_damage(
        [*data.training, *data.evaluation], settings.layout
    ):
        if settings.do_train:
            log.start(trainer.step, settings.recipe.num_train_steps, facts)
            dataset = inputs.training_dataset(
                data.training,
                settings.layout,
                settings.train_batch_size,
                seed=settings.trainer.seed,
                first_step=trainer.step,
                masker=masker,
            )
            trainer.train(
                dataset,
                settings.recipe.num_train_steps,
                log,
                evaluate if settings.do_eval else None,
                settings.best_metric,
            )
        if settings.follow_checkpoints:
            logging.info("Waiting for checkpoints in %s.", settings.output_dir)
            trainer.follow(
                settings.recipe.num_train_steps,
                log,
                evaluate,
                settings.best_metric,
            )
        if settings.do_eval:
            trainer.restore_best()
            numbers = evaluate()
    if is_chief:
        # The training that was followed writes its own card first.
        with (
            folder_lock.hold(settings.output_dir, "output_dir", math.inf)
            if settings.follow_checkpoints
            else contextlib.nullcontext()
        ):
            if settings.do_eval:
                run_log.write_eval_results(
                    settings.output_dir, trainer.step, numbers
                )
            logging.info("Wrote %s.", run_card.write(settings.output_dir))


def _check_memory(
    settings: PretrainingOptions,
    config: modeling.AlbertConfig,
    strategy: tf.distribute.Strategy,
) -> None:
    """Estimate the memory of the steps; see `memory_check.check`."""
    how, replicas = settings.trainer, strategy.num_replicas_in_sync

    def work(batch: int, parts: int) -> step_memory.Work:
        return step_memory.Work(
            config,
            batch // (replicas * parts),
            settings.max_seq_length,
            settings.num_predictions,
            precision=how.precision,
            recompute=how.recompute,
            parts=parts,
            replicas=memory_check.sharing(strategy),
        )

    if settings.do_train:
        needed = work(
            settings.train_batch_size, how.gradient_accumulation_steps
        )
        memory_check.check(
            strategy,
            memory_check.training_step(
                needed.training(), settings.train_batch_size
            ),
        )
    if settings.do_eval:
        needed = work(settings.eval_batch_size, 1)
        memory_check.check(
            strategy,
            memory_check.Step(
                "an evaluation batch",
                needed.inference(),
                "eval_batch_size",
                settings.eval_batch_size,
            ),
        )


def _make_trainer(
    settings: PretrainingOptions,
    config: modeling.AlbertConfig,
    strategy: tf.distribute.Strategy,
) -> training.Trainer:
    recipe, how = settings.recipe, settings.trainer

    def continue_schedule(
        optimizer: optimization.AdamW, variables: list[tf.Variable]
    ) -> None:
        path = str(recipe.init.init_checkpoint)
        checkpoints.restore_optimizer(optimizer, variables, path)
        step = int(optimizer.iterations.numpy())
        if settings.do_train and step >= recipe.num_train_steps:
            raise errors.UserError(
                f"--init_checkpoint={path} stands at step {step}, and "
                f"--num_train_steps={recipe.num_train_steps} is not above: "
                "with --init_schedule=continue nothing is left to train. Set "
                "more steps, or --init_schedule=restart."
            )

    return training.Trainer(
        settings.output_dir,
        how,
        strategy,
        training.Plan(
            lambda: recipe.make_model(config, how.precision, how.recompute),
            lambda: recipe.make_optimizer(by_the_clock=how.max_minutes > 0),
            recipe.objective,
            lambda model: checkpoints.initialize(model, recipe.init),
            continue_schedule if recipe.init_schedule == "continue" else None,
        ),
    )


@dataclasses.dataclass(frozen=True)
class _Data:
    training: list[str]
    evaluation: list[str]
    description: str
    manifests: list[records.Manifest]


def _find_data(
    settings: PretrainingOptions, config: modeling.AlbertConfig
) -> _Data:
    """Find the records and make sure that they are what the run expects."""
    pretraining_recipe.check_length(
        settings.max_seq_length, config, settings.albert_config_file
    )
    fingerprint = None
    vocabulary = settings.vocabulary
    if vocabulary.kind and vocabulary.path:
        files.require_file(vocabulary.path, vocabulary.kind)
        fingerprint = files.sha256(vocabulary.path)
    found = {
        name: files.expand_patterns(
            getattr(settings, name), name, files.BESIDE_RECORDS
        )
        for name in ("input_file", "eval_input_file")
        if getattr(settings, name) is not None
    }
    training_files = found["input_file"]
    evaluation_files = found.get("eval_input_file", training_files)
    manifests = records.check_records(
        list(dict.fromkeys(training_files + evaluation_files)),
        records.Expected(
            settings.max_seq_length,
            settings.masks.max_predictions_per_seq,
            config.vocab_size,
            fingerprint,
            has_masks=not settings.masked_lm_budget,
        ),
    )
    for manifest in manifests:
        _check_settings(vocabulary, manifest)
        _check_labels(
            settings.recipe.sentence_objective, manifest, training_files
        )
    known = sum(manifest.num_examples for manifest in manifests)
    description = (
        f"{len(training_files)} file(s) for training, {len(evaluation_files)} "
        f"for evaluation; {known:,} examples in those with a manifest"
    )
    return _Data(training_files, evaluation_files, description, manifests)


def _check_labels(
    objective: str, manifest: records.Manifest, training_files: list[str]
) -> None:
    """Refuse training records whose label means something else.

    To evaluate on them is allowed: how a model that was trained on nsp does on
    sop is a result (ALBERT Table 5).
    """
    written = pretraining_recipe.written_objective(manifest)
    if objective in ("none", written):
        return
    shards = ", ".join(manifest.shards)
    if manifest in map(records.find_manifest, training_files):
        raise errors.UserError(
            f"--sentence_objective={objective}, but the records {shards} were "
            f"written for {written}: their labels mean something else. Use "
            f"--sentence_objective={written}, or none, or write them again."
        )
    logging.warning(
        "The labels of %s mean %s; the model is asked about %s.",
        shards,
        written,
        objective,
    )


def _check_settings(
    vocabulary: tokenization.VocabularyOptions, manifest: records.Manifest
) -> None:
    """Refuse records whose text was cut in another way than the run says.

    The run hands its settings on to finetuning and export.
    """
    for name, here in vocabulary.settings.items():
        if manifest.options.get(name, here) != here:
            raise errors.UserError(
                f"--{name}={here}, but the records "
                f"{', '.join(manifest.shards)} were written with the opposite. "
                "Say what the records are, or write them again."
            )


def _warn(
    settings: PretrainingOptions, manifests: list[records.Manifest]
) -> None:
    """Say aloud what is allowed but probably not meant."""
    optimizer = settings.recipe.optimizer
    batch, rate = settings.train_batch_size, optimizer.learning_rate
    scaled = _PAPER_RATE * math.sqrt(batch / _PAPER_BATCH)
    is_lamb = optimizer.optimizer == "lamb"
    if settings.do_train and is_lamb and rate > _FAR * scaled:
        logging.warning(
            "--learning_rate=%g is much for batches of %d: the paper's %g is "
            "for %d, and the square-root rule gives %.2e here. Such runs often "
            "diverge.",
            rate,
            batch,
            _PAPER_RATE,
            _PAPER_BATCH,
            scaled,
        )
    # LAMB moves weights by a share of their size, AdamW by about the rate. 1e-3
    # learns at 32 (configs/pretraining); BERT took 1e-4 at 256 (Devlin et al.,
    # appendix A.2).
    if settings.do_train and not is_lamb and batch < 256 and rate > 1.5e-3:
        logging.warning(
            "--learning_rate=%g is much for --optimizer=adamw and batches of "
            "%d: the default, %g, is for lamb and %d. Such runs often diverge; "
            "1e-3 or less is usual.",
            rate,
            batch,
            _PAPER_RATE,
            _PAPER_BATCH,
        )
    budget = settings.masked_lm_budget
    wanted = settings.masks.masked_lm_prob * settings.max_seq_length
    if budget and wanted > budget + 1:
        logging.warning(
            "--masked_lm_prob=%g would hide %.0f of %d pieces, but "
            "--masked_lm_budget=%d lets only so many be. Give a larger one.",
            settings.masks.masked_lm_prob,
            wanted,
            settings.max_seq_length,
            budget,
        )
    for manifest in manifests:
        wanted = manifest.options.get("masked_lm_prob", 0.0) * (
            manifest.max_seq_length
        )
        if manifest.has_masks and wanted > manifest.max_predictions_per_seq + 1:
            logging.warning(
                "The records %s were to hide %.0f of %d pieces, but hold only "
                "%d predictions: fewer are hidden. Write them with a larger "
                "--max_predictions_per_seq.",
                ", ".join(manifest.shards),
                wanted,
                manifest.max_seq_length,
                manifest.max_predictions_per_seq,
            )
    if settings.do_eval and settings.eval_input_file is None:
        logging.warning(
            "No --eval_input_file: evaluation measures on --input_file, which "
            "says nothing about text that was not trained on."
        )


if __name__ == "__main__":
    options.run_script(run, PretrainingOptions)
