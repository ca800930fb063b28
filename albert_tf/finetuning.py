"""Finetune a task: features, head on a pretrained encoder, training, scores.

The same for every task; the scripts `run_classifier` and its siblings only
choose the task and say where its files are.
"""

import contextlib
import dataclasses
import gc
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf import (
    checkpoints,
    distribution,
    errors,
    folder_lock,
    inputs,
    memory_check,
    modeling,
    optimization,
    options,
    preemption,
    ranges,
    run_card,
    run_folder,
    run_log,
    scores,
    step_memory,
    tokenization,
    training,
)
from albert_tf.options import checked, option
from albert_tf.tasks import base, features, saved_outputs


@dataclasses.dataclass(frozen=True)
@checked
class LengthOptions:
    """How long a run trains.

    DIFFERS: the original's run_classifier trains 1000 steps without warm-up
    where nothing is said; here epochs and shares count, as in its run_squad.
    """

    train_step: int | None = option(
        None,
        "Step to stop at. Default: by --num_train_epochs.",
        within=ranges.STEPS,
    )
    warmup_step: int | None = option(
        None,
        "Steps of linear warm-up. Default: by --warmup_proportion.",
        within=ranges.STEPS_OR_NONE,
    )
    num_train_epochs: float = option(
        3.0,
        "Passes over the training records, without --train_step.",
        within=ranges.Range(above=0, high=10**6),
    )
    warmup_proportion: float = option(
        0.1,
        "Share of the steps that warms up, without --warmup_step.",
        within=ranges.SHARE,
    )

    def steps(self, num_records: int, batch_size: int) -> tuple[int, int]:
        """Return the updates of the run, and of its warm-up.

        Raises:
            errors.UserError: The warm-up is longer than the run.
        """
        train = self.train_step
        if train is None:
            epochs = self.num_train_epochs
            train = max(1, int(num_records * epochs / batch_size))
        warmup = self.warmup_step
        if warmup is None:
            warmup = int(train * self.warmup_proportion)
        if warmup > train:
            raise errors.UserError(
                f"--warmup_step={warmup} does not fit the {train} steps of the "
                "run: the warm-up is a part of them."
            )
        return train, warmup


@dataclasses.dataclass(frozen=True)
@checked
class FinetuningOptions:
    """Options that all finetuning scripts share."""

    albert_config_file: str = option(
        help="JSON file with the architecture.", may_change=True
    )
    output_dir: str = option(
        help="Folder for checkpoints, logs and predictions.", may_change=True
    )
    cached_dir: str | None = option(
        None, "Folder of feature files. Default: --output_dir.", may_change=True
    )
    train_feature_file: str | None = option(
        None,
        "Training features from data_prep.create_finetuning_data. Default: "
        "made in --cached_dir.",
        may_change=True,
    )
    max_seq_length: int = option(
        512, "Tokens per example; longer is cut.", within=ranges.TOKENS_OF_TASK
    )
    do_train: bool = option(False, "Whether to train.", may_change=True)
    do_eval: bool = option(
        False,
        "Whether to evaluate on the dev set: after every checkpoint when "
        "training, else the best checkpoint.",
        may_change=True,
    )
    do_predict: bool = option(
        False,
        "Whether to predict the test set with the best checkpoint.",
        may_change=True,
    )
    train_batch_size: int = option(
        32, "Examples per step, all replicas.", within=ranges.BATCH
    )
    eval_batch_size: int = option(
        8,
        "Examples per evaluation batch, all replicas.",
        within=ranges.BATCH,
        may_change=True,
    )
    predict_batch_size: int = option(
        8,
        "Examples per prediction batch, all replicas.",
        within=ranges.BATCH,
        may_change=True,
    )
    early_stopping_evaluations: int = option(
        0,
        "Stop when so many evaluations in a row brought no better score; 0 "
        "never.",
        within=ranges.STEPS_OR_NONE,
        may_change=True,
    )
    num_runs: int = option(
        1,
        "Runs with seeds --seed, --seed + 1, and so on, each in a folder of "
        "its own; median, mean and spread are reported.",
        within=ranges.RUNS,
        may_change=True,
    )
    new_head: bool = option(
        False,
        "Whether the head starts from random weights although "
        "--init_checkpoint has one: from a model finetuned for another task.",
        may_change=True,
    )
    hidden_dropout_prob: float | None = option(
        None,
        "Dropout of the encoder. Default: that of --albert_config_file.",
        within=ranges.DROPOUT,
    )
    attention_probs_dropout_prob: float | None = option(
        None,
        "Dropout of attention. Default: that of --albert_config_file.",
        within=ranges.DROPOUT,
    )
    length: LengthOptions = dataclasses.field(default_factory=LengthOptions)
    vocabulary: tokenization.VocabularyOptions = dataclasses.field(
        default_factory=tokenization.VocabularyOptions
    )
    init: checkpoints.InitOptions = dataclasses.field(
        default_factory=checkpoints.InitOptions
    )
    optimizer: optimization.OptimizerOptions = dataclasses.field(
        default_factory=lambda: optimization.OptimizerOptions(
            optimizer="adamw", learning_rate=5e-5
        )
    )
    trainer: training.TrainerOptions = dataclasses.field(
        default_factory=lambda: training.TrainerOptions(
            save_checkpoints_steps=1000
        )
    )
    devices: distribution.DistributionOptions = dataclasses.field(
        default_factory=distribution.DistributionOptions
    )

    def __post_init__(self) -> None:
        self.vocabulary.require()
        if not (self.do_train or self.do_eval or self.do_predict):
            raise errors.UserError(
                "None of --do_train, --do_eval and --do_predict is set. Set at "
                "least one."
            )
        if self.early_stopping_evaluations and not self.do_eval:
            raise errors.UserError(
                "--early_stopping_evaluations needs the scores of --do_eval. "
                "Set it, or drop the option."
            )
        if self.new_head and not self.init.init_checkpoint:
            raise errors.UserError(
                "--new_head says how to use --init_checkpoint, which is not "
                "given. Add it, or drop the option."
            )

    def read_config(self) -> modeling.AlbertConfig:
        """Read the architecture, with the dropout that the options ask for."""
        config = modeling.AlbertConfig.from_json_file(self.albert_config_file)
        names = "hidden_dropout_prob", "attention_probs_dropout_prob"
        given = {name: getattr(self, name) for name in names}
        changes = {k: v for k, v in given.items() if v is not None}
        return dataclasses.replace(config, **changes)


@dataclasses.dataclass(frozen=True)
class Job:
    """What a script wants done.

    Attributes:
        program: Name of the script, for its folder.
        settings: Its options; `settings.finetuning` are those above.
        task: The task.
        sources: File or folder of each split that is there.
    """

    program: str
    settings: Any
    task: base.Task
    sources: Mapping[str, str]

    @property
    def finetuning(self) -> FinetuningOptions:
        """The options that all scripts share."""
        settings: FinetuningOptions = self.settings.finetuning
        return settings

    def changed(self, **values: Any) -> "Job":
        """Return the job with other options."""
        flat = {**options.to_dict(self.settings), **values}
        settings = options.from_dict(type(self.settings), flat)
        return dataclasses.replace(self, settings=settings)


def load_tokenizer(settings: FinetuningOptions) -> tokenization.AnyTokenizer:
    """Open the vocabulary, and make sure that it belongs to the architecture.

    Raises:
        errors.UserError: It does not, or sequences are too long.
    """
    tokenizer = tokenization.load(settings.vocabulary)
    check_fit(settings, settings.read_config(), tokenizer)
    return tokenizer


def check_fit(
    settings: FinetuningOptions,
    config: modeling.AlbertConfig,
    tokenizer: tokenization.AnyTokenizer,
) -> None:
    """Make sure that options, architecture and vocabulary belong together.

    Raises:
        errors.UserError: They do not.
    """
    if settings.max_seq_length > config.max_position_embeddings:
        raise errors.UserError(
            f"--max_seq_length={settings.max_seq_length} is longer than the "
            f"{config.max_position_embeddings} positions of "
            f"{settings.albert_config_file}. Use at most that, or a checkpoint "
            "with more positions."
        )
    if tokenizer.vocab_size != config.vocab_size:
        raise errors.UserError(
            f"--{settings.vocabulary.kind}={settings.vocabulary.path} has "
            f"{tokenizer.vocab_size} pieces, but {settings.albert_config_file} "
            f"has vocab_size {config.vocab_size}. Use the vocabulary that the "
            "checkpoint was pretrained with."
        )


@preemption.leaving_at_once()
def run(job: Job) -> None:
    """Train, evaluate and predict one task, once or several times.

    With several runs, each has a folder `run_1`, `run_2` and so on, and the
    best one's predictions are written beside these folders. Of several workers
    the first writes; features and logs of the others are in `worker_N`.
    """
    settings = job.finetuning
    # First of all: several workers must meet before TensorFlow does anything.
    strategy = distribution.make_strategy(settings.devices)
    jobs = [job]
    if settings.num_runs > 1:
        jobs = [
            job.changed(
                output_dir=os.path.join(settings.output_dir, f"run_{number}"),
                cached_dir=settings.cached_dir or settings.output_dir,
                seed=settings.trainer.seed + number - 1,
                num_runs=1,
            )
            for number in range(1, settings.num_runs + 1)
        ]
    for one in jobs:
        run_folder.check_start(
            one.finetuning.output_dir,
            settings.init.init_checkpoint,
            settings.vocabulary,
        )
    _check_memory(job, strategy)
    data = _Data(job, strategy)
    is_chief = distribution.is_chief(strategy)
    done = []
    with _hold_folder(job, is_chief):
        for one in jobs:
            with _hold_folder(one, is_chief and len(jobs) > 1):
                done.append(_run_once(one, data, strategy))
            keras.backend.clear_session()
            gc.collect()
        if len(jobs) > 1 and is_chief:
            _finish_several(job, data, done)


def _hold_folder(
    job: Job, is_wanted: bool
) -> contextlib.AbstractContextManager[None]:
    """Keep other processes out; of several workers the first one does."""
    if not is_wanted:
        return contextlib.nullcontext()
    return folder_lock.hold(job.finetuning.output_dir, "output_dir")


def _check_memory(job: Job, strategy: tf.distribute.Strategy) -> None:
    """Estimate the memory of the steps; see `memory_check.check`."""
    settings, task = job.finetuning, job.task
    how, replicas = settings.trainer, strategy.num_replicas_in_sync

    def work(batch: int, parts: int, starts: int) -> step_memory.Work:
        return step_memory.Work(
            settings.read_config(),
            batch * task.sequences_at_once // (replicas * parts),
            settings.max_seq_length,
            starts=starts,
            precision=how.precision,
            recompute=how.recompute,
            parts=parts,
            replicas=memory_check.sharing(strategy),
        )

    if settings.do_train:
        batch, parts = (
            settings.train_batch_size,
            how.gradient_accumulation_steps,
        )
        needed = work(batch, parts, min(task.starts_at_once, 1)).training()
        memory_check.check(strategy, memory_check.training_step(needed, batch))
    for name, wanted in (
        ("eval_batch_size", settings.do_eval),
        ("predict_batch_size", settings.do_predict),
    ):
        if wanted:
            batch = getattr(settings, name)
            needed = work(batch, 1, task.starts_at_once).inference()
            step = memory_check.Step(
                f"a batch of --{name}", needed, name, batch
            )
            memory_check.check(strategy, step)


def _run_once(
    job: Job, data: "_Data", strategy: tf.distribute.Strategy
) -> scores.Run:
    """Train, evaluate and predict with one seed."""
    settings = job.finetuning
    config = settings.read_config()
    folder = settings.output_dir
    is_chief = distribution.is_chief(strategy)
    (run_folder.claim if is_chief else run_folder.check_same)(
        folder, job.program, job.settings, config, settings.vocabulary
    )
    data.make_features(settings)
    train_steps, warmup_steps = data.steps()
    trainer = _make_trainer(job, (train_steps, warmup_steps), strategy)
    model = _Model(job, data, trainer)
    if settings.do_train:
        log = run_log.RunLog(
            distribution.worker_folder(strategy, folder),
            settings.train_batch_size,
        )
        facts = run_card.environment(trainer.model, data.description)
        facts[run_log.TRAINING_DATA] = data.training_key
        logging.info("%s", run_card.summary(config, facts))
        log.start(trainer.step, train_steps, facts)
        model.train(train_steps, log)
    trainer.restore_best()
    numbers = model.evaluate(save=is_chief) if settings.do_eval else {}
    done = scores.Run(folder, settings.trainer.seed, trainer.step, numbers)
    if is_chief and settings.do_eval:
        run_log.write_eval_results(folder, trainer.step, numbers)
        _sum_up(job, [done])
    # Every worker takes part in predicting; the first one writes.
    for split in data.test_splits:
        outputs = model.predict(split, save=is_chief)
        if is_chief:
            job.task.write_predictions(
                outputs, data.examples[split], split, folder
            )
    if is_chief:
        logging.info("Wrote %s", run_card.write(folder))
    return done


def _finish_several(
    job: Job, data: "_Data", runs: Sequence[scores.Run]
) -> None:
    """Sum up several runs, and write the predictions of the best one."""
    settings = job.finetuning
    if settings.do_eval:
        print(_sum_up(job, runs).to_markdown(), flush=True)
    if not settings.do_predict:
        return
    best = scores.best_folder(settings.output_dir)
    if best == settings.output_dir:
        logging.warning(
            "No scores say which run is the best, so the predictions are in "
            "their folders only. With --do_eval they also come into %s.",
            settings.output_dir,
        )
        return
    _publish(job, data, best)


def _sum_up(job: Job, runs: Sequence[scores.Run]) -> scores.Summary:
    """Write what the scores of one or several runs have in common."""
    summary = scores.Summary(job.task.name, job.task.key_metric, tuple(runs))
    scores.write(job.finetuning.output_dir, summary)
    return summary


def _publish(job: Job, data: "_Data", best: str) -> None:
    """Write the predictions of the best of several runs for all of them."""
    for split in data.test_splits:
        saved = saved_outputs.load(best, split)
        job.task.write_predictions(
            saved.outputs,
            data.examples[split],
            split,
            job.finetuning.output_dir,
        )
    logging.info("The predictions are those of %s", best)


class _StopEarlyError(Exception):
    """No mistake: the way out of the trainer when nothing gets better."""


class _Model:
    """A model with the data of a run: training, scores, predictions."""

    def __init__(self, job: Job, data: "_Data", trainer: training.Trainer):
        self._job = job
        self._data = data
        self._trainer = trainer

    def train(self, train_steps: int, log: run_log.RunLog) -> None:
        """Train to the end, or until evaluations bring nothing better."""
        settings, key = self._job.finetuning, self._job.task.key_metric
        patience = settings.early_stopping_evaluations

        def is_over(values: Sequence[float]) -> bool:
            # Logs of workers may differ: one of them may be new.
            return self._trainer.of_chief(is_stuck(values, patience))

        def evaluate() -> dict[str, float]:
            numbers = self.evaluate()
            history = [value for _, value in log.column("eval", key)]
            if is_over([*history, numbers[key]]):
                # The trainer would not come to write them any more.
                log.write("eval", self._trainer.step, numbers)
                log.flush()
                raise _StopEarlyError
            return numbers

        before = [value for _, value in log.column("eval", key)]
        try:
            if is_over(before):  # An earlier start was stopped here.
                raise _StopEarlyError
            with self._data.naming_damage(base.TRAIN):
                self._trainer.train(
                    self._data.shuffled(self._trainer.step),
                    train_steps,
                    log,
                    evaluate if settings.do_eval else None,
                    key,
                )
        except _StopEarlyError:
            logging.info(
                "Stopped at step %d: %d evaluations brought no better %s.",
                self._trainer.step,
                patience,
                key,
            )

    def evaluate(self, *, save: bool = False) -> dict[str, float]:
        """Return the scores of all evaluation splits.

        Those of the second one have the ending of its name (`accuracy` and
        `accuracy_mismatched`).
        """
        numbers: dict[str, float] = {}
        splits = self._data.eval_splits
        for split in splits:
            outputs = self.predict(split, save=save)
            found = self._job.task.score(outputs, self._data.examples[split])
            numbers |= scores.named(found, split, splits)
        return numbers

    def predict(self, split: str, *, save: bool = False) -> base.Outputs:
        """Return the outputs for a split; keep them in the run's folder."""
        with self._data.naming_damage(split):
            outputs = self._trainer.predict(self._data.in_order(split))
        if save:
            source = self._job.sources[split]
            facts = features.describe(self._job.task, source, split)
            saved_outputs.save(
                self._job.finetuning.output_dir,
                split,
                saved_outputs.SavedOutputs(outputs, source, facts),
            )
        return outputs


def is_stuck(values: Sequence[float], patience: int) -> bool:
    """Tell whether the last `patience` values are all no better than before.

    Example:
        is_stuck([0.5, 0.7, 0.7, 0.6], 2) = True

    Args:
        values: Scores in their order; larger is better.
        patience: 0 never gives up.
    """
    if not patience or len(values) <= patience:
        return False
    return max(values[-patience:]) <= max(values[:-patience])


class _Data:
    """The splits of a job: examples, features, batches."""

    def __init__(self, job: Job, strategy: tf.distribute.Strategy):
        """Read the examples of all wanted splits.

        Raises:
            errors.UserError: A split is missing or unusable, or the devices
                cannot share the batches equally.
        """
        self._job = job
        self._strategy = strategy
        self._features: dict[str, features.FeatureFile] = {}
        settings, task = job.finetuning, job.task
        self.eval_splits = self._available(
            settings.do_eval, task.eval_splits, "do_eval"
        )
        self.test_splits = self._available(
            settings.do_predict, task.test_splits, "do_predict"
        )
        wanted = dict.fromkeys((*self.eval_splits, *self.test_splits))
        if settings.do_train and not settings.train_feature_file:
            splits = self._available(True, (base.TRAIN,), "do_train")
            wanted = {**dict.fromkeys(splits), **wanted}
        self.examples = {s: task.read(job.sources[s], s) for s in wanted}
        self._check_batches()

    def _available(
        self, wanted: bool, splits: Sequence[str], option_name: str
    ) -> tuple[str, ...]:
        """Return those of the wanted splits that are there.

        Raises:
            errors.UserError: None is.
        """
        if not wanted:
            return ()
        found = tuple(s for s in splits if s in self._job.sources)
        for split in splits:
            if found and split not in found:
                logging.warning("Without %s: it has no file.", split)
        if not found:
            raise errors.UserError(
                f"--{option_name} is set, but the task {self._job.task.name} "
                f"has no file for it{': ' if splits else ''}"
                f"{', '.join(splits)}. Drop --{option_name}."
            )
        return found

    def _check_batches(self) -> None:
        settings = self._job.finetuning
        parts = settings.trainer.gradient_accumulation_steps
        for name, wanted, divisor in (
            ("train_batch_size", settings.do_train, parts),
            ("eval_batch_size", settings.do_eval, 1),
            ("predict_batch_size", settings.do_predict, 1),
        ):
            if wanted:
                size = getattr(settings, name)
                distribution.check_batch(self._strategy, size, name, divisor)

    def make_features(self, settings: FinetuningOptions) -> None:
        """Make the feature files that are not there yet."""
        folder = distribution.worker_folder(
            self._strategy, settings.cached_dir or settings.output_dir
        )
        sources, task = self._job.sources, self._job.task
        for split, examples in self.examples.items():
            if split not in self._features:
                self._features[split] = features.cached(
                    task, sources[split], split, folder, examples
                )
        if settings.do_train and settings.train_feature_file:
            given = features.opened(
                task,
                settings.train_feature_file,
                sources.get(base.TRAIN),
                base.TRAIN,
                "train_feature_file",
            )
            self._features[base.TRAIN] = features.shuffled(
                given, task.name, folder
            )

    @property
    def training_key(self) -> str:
        """What tells training features apart: their file is named by it."""
        return os.path.basename(self._features[base.TRAIN].path)

    @property
    def description(self) -> str:
        """One sentence on the data, for the run card."""
        counts = (
            f"{file.num_records:,} {split}"
            for split, file in self._features.items()
        )
        return f"{self._job.task.name}: {', '.join(counts)} records"

    def steps(self) -> tuple[int, int]:
        """Return the updates of the run, and of its warm-up."""
        settings = self._job.finetuning
        if not settings.do_train:
            return 1, 0  # Of no schedule; nothing is trained.
        return settings.length.steps(
            self._features[base.TRAIN].num_records, settings.train_batch_size
        )

    def shuffled(self, first_step: int) -> tf.data.Dataset:
        """Return endless training batches, from that of `first_step` on."""
        settings = self._job.finetuning
        return inputs.training_dataset(
            [self._features[base.TRAIN].path],
            self._job.task.layout(base.TRAIN),
            settings.train_batch_size,
            seed=settings.trainer.seed,
            first_step=first_step,
        )

    def naming_damage(
        self, split: str
    ) -> contextlib.AbstractContextManager[None]:
        """Have errors about damaged records of a split name the file."""
        path = self._features[split].path
        return inputs.naming_damage(
            [path],
            self._job.task.layout(split),
            f"Remove it and {path}{features.FACTS_ENDING}, and start the same "
            "command again: it is made again.",
        )

    def in_order(self, split: str) -> tf.data.Dataset:
        """Return all records of a split in batches."""
        settings = self._job.finetuning
        size = settings.predict_batch_size
        if split in self.eval_splits:
            size = settings.eval_batch_size
        return inputs.evaluation_dataset(
            [self._features[split].path],
            self._job.task.layout(split),
            size,
        )


def _make_trainer(
    job: Job, steps: tuple[int, int], strategy: tf.distribute.Strategy
) -> training.Trainer:
    settings, task = job.finetuning, job.task
    config = settings.read_config()
    if settings.do_train and not settings.init.init_checkpoint:
        logging.warning(
            "No --init_checkpoint: the encoder starts from random weights."
        )
    return training.Trainer(
        settings.output_dir,
        settings.trainer,
        strategy,
        training.Plan(
            lambda: task.make_model(
                modeling.AlbertModel(
                    config,
                    precision=settings.trainer.precision,
                    recompute=settings.trainer.recompute,
                )
            ),
            lambda: optimization.make_optimizer(settings.optimizer, *steps),
            task.objective,
            lambda model: _initialize(model, settings),
        ),
    )


def _initialize(
    model: keras.Model, settings: FinetuningOptions
) -> checkpoints.Restored | None:
    """Give a new model the weights it starts from."""
    init = settings.init
    if settings.new_head:
        encoder = {checkpoints.name_of(v) for v in model.encoder.variables}
        names = {checkpoints.name_of(v) for v in model.variables} - encoder
        scopes = ",".join([*init.new_scopes, *sorted(names)])
        init = dataclasses.replace(init, new_weights=scopes)
    return checkpoints.initialize(model, init, new_heads=True)
