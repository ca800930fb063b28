"""One run of finetuning: train a task with one seed, score and predict."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.common import scores
from albert_tf.finetuning import (
    base,
    features,
    finetuning_options,
    predictions,
    run_data,
    saved_outputs,
)
from albert_tf.model import model_options
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.model.heads import model_with_head
from albert_tf.model.losses import exits
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.model.optimizers import optimization
from albert_tf.training import (
    confusion,
    distribution,
    evaluation,
    run_card,
    run_folder,
    run_log,
    training_loop,
)


def run_once(
    program: str,
    settings: finetuning_options.TaskOptions,
    data: run_data.RunData,
    strategy: tf.distribute.Strategy,
) -> scores.RunScores:
    shared, is_chief = settings.finetuning, distribution.is_chief(strategy)
    start = run_folder.RunStart(
        shared.output_dir,
        program,
        settings,
        shared.read_config(),
        shared.vocabulary,
        facts=data.task.facts.to_dict(),
    )
    if is_chief:
        start.refuse_foreign_files()
    start.checked_options()
    # Errors in their files come before the folder becomes the run's.
    data.make_features(shared)
    if shared.do_train:
        run_folder.check_same_data(shared.output_dir, data.training_key)
    if is_chief:
        start.write_options()
    with distribution.Workers(strategy).ending_together():
        return _TaskRun(shared, data, strategy).run()


def write_summary(
    task: base.Task, output_dir: str, runs: Sequence[scores.RunScores]
) -> scores.Summary:
    summary = scores.Summary(task.name, task.key_metric, tuple(runs))
    scores.write(output_dir, summary)
    return summary


class _StopEarlyError(Exception):
    """Ends training after evaluations without a better score; not a mistake."""


class _TaskRun:
    """Trains, scores and predicts with the data of a task."""

    def __init__(
        self,
        settings: finetuning_options.FinetuningOptions,
        data: run_data.RunData,
        strategy: tf.distribute.Strategy,
    ):
        self._settings = settings
        self._data = data
        self._strategy = strategy
        training = settings.trainer
        keras.utils.set_random_seed(training.seed)
        with strategy.scope():
            encoder = AlbertModel(
                settings.read_config(),
                precision=training.precision,
                recompute=training.recompute,
            )
            model = data.task.make_model(encoder)
            model.trainable = not data.task.computes_head  # Has no moments.
            objective = data.objective
            if settings.exit_layers:
                depths = encoder.config.exits(settings.exit_layers)
                if isinstance(model, model_with_head.ModelWithHead):
                    model.add_exits(depths[:-1], own_heads=settings.exit_heads)
                objective = exits.over_depths(objective, depths)
            optimizer = optimization.make_optimizer(
                settings.optimizer,
                *data.steps(),
                by_the_clock=training.max_minutes > 0,
                encoder_factor=settings.encoder_factor,
                precision=training.precision,
            )
        data.start(model)
        self._trainer = training_loop.Trainer(
            model, optimizer, objective, settings.output_dir, training
        )

    def run(self) -> scores.RunScores:
        settings, data, trainer = self._settings, self._data, self._trainer
        folder, task = settings.output_dir, data.task
        is_chief = distribution.is_chief(self._strategy)
        trainer.restore_or_initialize(self._initial_weights(), new_heads=True)
        # Thresholds that training has chosen stay in later evaluations.
        best_scores: dict[str, float] = {}
        if not (settings.do_train and settings.do_eval):
            best_scores = scores.best_scores(folder)
        task.remember(best_scores)
        if settings.do_train:
            self.train(self._start_log())
        trainer.restore_best()
        eval_scores = self.evaluate(save=is_chief) if settings.do_eval else {}
        task.remember(eval_scores or best_scores)
        run_scores = scores.RunScores(
            folder, settings.trainer.seed, trainer.step, eval_scores
        )
        if is_chief and settings.do_eval:
            run_log.write_eval_results(folder, trainer.step, eval_scores)
            write_summary(task, folder, [run_scores])
        for split in data.test_splits:
            outputs = self.predict(split, save=is_chief)
            if is_chief:
                task.write_predictions(
                    outputs, data.examples[split], split, folder
                )
        if is_chief:
            logging.info("Wrote %s", run_card.write(folder))
        return run_scores

    def _initial_weights(self) -> model_options.InitOptions:
        """Return the weights to start from, with the scopes that are new."""
        settings, init = self._settings, self._settings.init
        if settings.do_train and not init.init_checkpoint:
            logging.warning(
                "No `init_checkpoint`: the encoder starts from random weights."
            )
        if not settings.new_head:
            return init
        model = self._trainer.model
        names, of_encoder = (
            {checkpoint_reader.name_of(v) for v in part.variables}
            for part in (model, model.encoder)
        )
        scopes = ",".join([*init.new_scopes, *sorted(names - of_encoder)])
        return dataclasses.replace(init, new_weights=scopes)

    def _start_log(self) -> run_log.RunLog:
        settings, data = self._settings, self._data
        provenance = run_card.provenance(
            self._trainer.model, data.description, data.training_key
        )
        logging.info("%s", run_card.summary(settings.read_config(), provenance))
        log = run_log.RunLog(
            distribution.worker_folder(self._strategy, settings.output_dir),
            settings.train_batch_size,
        )
        train_steps, _ = data.steps()
        log.start(self._trainer.step, train_steps, provenance)
        return log

    def train(self, log: run_log.RunLog) -> None:
        """Train until the last step, or evaluations that get no better."""
        settings, data, trainer = self._settings, self._data, self._trainer
        contents = [
            data.feature_key(split)[features.CONTENT][:12]
            for split in data.eval_splits
        ]

        def evaluate() -> dict[str, float]:
            all_scores = self.evaluate()
            self._stop_if_stuck(log, validation.measured, all_scores)
            return all_scores

        validation = trainer.validation(
            log, evaluate, data.task.key_metric, " ".join(contents)
        )
        try:
            # An earlier start may have been stopped here.
            self._stop_if_stuck(log, validation.measured)
            if data.task.computes_head:
                validator = validation if settings.do_eval else None
                trainer.compute(self._compute_head, log, validator)
                return
            with data.naming_damage(base.TRAIN):
                trainer.train(
                    data.training_batches(settings.trainer.seed, trainer.step),
                    data.steps()[0],
                    log,
                    validation if settings.do_eval else None,
                )
        except _StopEarlyError:
            logging.info(
                "Stopped at step %d: %d evaluations without a better %s.",
                trainer.step,
                settings.early_stopping_evaluations,
                data.task.key_metric,
            )

    def _compute_head(self) -> None:
        """Give the head the weights that the task computes from vectors."""
        task, model = self._data.task, self._trainer.model

        def read(batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            vector = model.encode(batch, False, None)["pooled_output"]
            names = "label_ids", "is_real_example"
            return {"vector": vector, **{name: batch[name] for name in names}}

        call = predictions.compile_model(read)

        def records(split: str) -> base.Outputs:
            outputs = [*map(call, self._data.all_batches(split))]
            joined = evaluation.concatenate(outputs, {})
            is_real = joined.pop("is_real_example") > 0
            return {name: values[is_real] for name, values in joined.items()}

        weights, bias = task.compute_head(records)
        model.output_weights.assign(weights)
        model.output_bias.assign(bias)

    def _stop_if_stuck(
        self,
        log: run_log.RunLog,
        measured: str,
        new_scores: dict[str, float] | None = None,
    ) -> None:
        """Raise `_StopEarlyError` if the key metric no longer gets better.

        Args:
            new_scores: Those of an evaluation that is not in the log yet; they
                are written to it before.
        """
        key = self._data.task.key_metric
        values = [value for _, value in log.column("eval", key, measured)]
        values += [new_scores[key]] if new_scores else []
        patience = self._settings.early_stopping_evaluations
        # The logs of workers may differ: one of them may be new.
        if not self._trainer.chief_value(is_stuck(values, patience)):
            return
        if new_scores:  # The trainer, which is left here, does not write them.
            log.write("eval", self._trainer.step, new_scores, measured=measured)
            log.flush()
        raise _StopEarlyError

    def evaluate(self, *, save: bool = False) -> dict[str, float]:
        """Return the scores of all splits; see `scores.add_split`."""
        all_scores: dict[str, float] = {}
        confusions: dict[str, confusion.Confusion] = {}
        splits = self._data.eval_splits
        for split in splits:
            outputs = self.predict(split, save=save)
            examples, task = self._data.examples[split], self._data.task
            split_scores = task.score(outputs, examples)
            all_scores |= scores.add_split(split_scores, split, splits)
            if save:
                matrix = task.confusion(outputs, examples)
                confusions |= {split: matrix} if matrix else {}
                score = split_scores[task.key_metric]
                warn_if_constant(
                    split,
                    score,
                    task.answers(outputs, examples),
                    [getattr(example, "label", None) for example in examples],
                )
        if save:
            confusion.write(self._settings.output_dir, confusions)
        return all_scores

    def predict(self, split: str, *, save: bool = False) -> base.Outputs:
        """Return the outputs for a split; `save` writes them to the folder."""
        with self._data.naming_damage(split):
            outputs = self._trainer.predict(
                self._data.all_batches(split), self._data.task.output_widths
            )
        pooled = self._data.task.pool_records(
            outputs, self._data.examples[split]
        )
        if save:
            source, key = (
                self._data.sources[split],
                self._data.feature_key(split),
            )
            saved_outputs.save(
                self._settings.output_dir,
                split,
                saved_outputs.SavedOutputs(pooled, source, key),
            )
        return pooled


def warn_if_constant(
    split: str,
    score: float,
    answers: Iterable[Mapping[str, Any]],
    labels: Sequence[Any],
) -> None:
    """Warn if all examples get the same answer: the model learned nothing.

    Numbers are the same answer if they differ by less than a thousandth of the
    standard deviation of the labels, or of 1 without labels.
    """
    values = [
        answer.get("prediction", answer.get("spans")) for answer in answers
    ]
    if len(values) < 2 or score in (1.0, 100.0):
        return
    if all(isinstance(value, float) for value in values):
        are_numbers = all(isinstance(value, (int, float)) for value in labels)
        unit = (np.std(labels) if are_numbers else 0.0) or 1.0
        is_constant, answer = np.ptp(values) < unit / 1000, f"{values[0]:.6g}"
    else:
        is_constant, answer = len({*map(str, values)}) == 1, str(values[0])
    if is_constant:
        logging.warning(
            "%s: all %d examples get the same answer, %r. So the model has "
            "learned nothing about them. Try a lower `learning_rate`, a longer "
            "run, or another `seed`.",
            split,
            len(values),
            answer,
        )


def is_stuck(values: Sequence[float], patience: int) -> bool:
    """Tell whether the last `patience` values are all no better than before.

    Example: is_stuck([0.5, 0.7, 0.7, 0.6], 2) is true; 0 never gives up.
    """
    if not patience or len(values) <= patience:
        return False
    return max(values[-patience:]) <= max(values[:-patience])
