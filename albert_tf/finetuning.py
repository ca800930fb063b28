"""Finetune a task: features, head on a pretrained encoder, training, scores.

The same for every task; the scripts `run_classifier` and its siblings only
choose the task and count the steps.
"""

import dataclasses
import os

import tensorflow as tf
from absl import logging

from albert_tf import (
    checkpoints,
    distribution,
    errors,
    inputs,
    modeling,
    optimization,
    run_card,
    run_folder,
    run_log,
    tokenization,
    training,
)
from albert_tf.options import option
from albert_tf.tasks import base, features


@dataclasses.dataclass(frozen=True)
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
    max_seq_length: int = option(512, "Tokens per example; longer is cut.")
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
    train_batch_size: int = option(32, "Examples per step, all replicas.")
    eval_batch_size: int = option(
        8, "Examples per evaluation batch, all replicas.", may_change=True
    )
    predict_batch_size: int = option(
        8, "Examples per prediction batch, all replicas.", may_change=True
    )
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
        if self.max_seq_length < 4:
            raise errors.UserError(
                f"--max_seq_length={self.max_seq_length} leaves no room for "
                "text beside the special tokens. Use 64 to 512."
            )

    @property
    def splits(self) -> dict[str, int]:
        """The splits that are wanted, each with its batch size."""
        wanted = {
            "train": (self.do_train, self.train_batch_size),
            "dev": (self.do_eval, self.eval_batch_size),
            "test": (self.do_predict, self.predict_batch_size),
        }
        return {name: size for name, (do, size) in wanted.items() if do}


@dataclasses.dataclass(frozen=True)
class Steps:
    """Length of a finetuning run, in updates."""

    train: int
    warmup: int


def run(
    task: base.Task,
    data_dir: str,
    steps: Steps,
    settings: FinetuningOptions,
    claim: tuple[str, object],
) -> None:
    """Train, evaluate and predict one task.

    Args:
        task: The task.
        data_dir: Where its files are.
        steps: How long to train.
        settings: Everything else.
        claim: Name and full options of the script, remembered in the folder.
    """
    config = modeling.AlbertConfig.from_json_file(settings.albert_config_file)
    tokenizer = tokenization.load(settings.vocabulary)
    check_fit(settings, config, tokenizer)
    run_folder.check_start(
        settings.output_dir, settings.init.init_checkpoint, settings.vocabulary
    )
    examples = {s: task.read(data_dir, s) for s in settings.splits}
    strategy = distribution.make_strategy(settings.devices)
    for split, size in settings.splits.items():
        parts = settings.trainer.gradient_accumulation_steps
        distribution.check_batch(
            strategy,
            size,
            _BATCH_OPTION[split],
            parts if split == "train" else 1,
        )
    run_folder.claim(settings.output_dir, *claim, config, settings.vocabulary)
    trainer = _make_trainer(task, config, steps, settings, strategy)
    datasets = _Datasets(task, tokenizer, settings, examples)
    log = run_log.RunLog(settings.output_dir, settings.train_batch_size)

    def evaluate() -> dict[str, float]:
        outputs = trainer.predict(datasets.in_order("dev"))
        return task.score(outputs, examples["dev"])

    if settings.do_train:
        facts = run_card.environment(trainer.model, datasets.description)
        logging.info("%s", run_card.summary(config, facts))
        log.start(trainer.step, steps.train, facts)
        trainer.train(
            datasets.shuffled(trainer.step),
            steps.train,
            log,
            evaluate if settings.do_eval else None,
            task.key_metric,
        )
    trainer.restore_best()
    if settings.do_eval:
        run_log.write_eval_results(
            settings.output_dir, trainer.step, evaluate()
        )
    if settings.do_predict:
        outputs = trainer.predict(datasets.in_order("test"))
        task.write_predictions(outputs, examples["test"], settings.output_dir)
    logging.info("Wrote %s", run_card.write(settings.output_dir))


_BATCH_OPTION = {
    "train": "train_batch_size",
    "dev": "eval_batch_size",
    "test": "predict_batch_size",
}


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


class _Datasets:
    """The splits of a run as batches."""

    def __init__(
        self,
        task: base.Task,
        tokenizer: tokenization.AnyTokenizer,
        settings: FinetuningOptions,
        examples: dict[str, list[base.Example]],
    ):
        folder = settings.cached_dir or settings.output_dir
        self._settings = settings
        self._layout = task.layout(settings.max_seq_length)
        self._paths = {
            split: features.cached(
                task,
                examples[split],
                tokenizer,
                max_seq_length=settings.max_seq_length,
                path_prefix=os.path.join(folder, f"{task.name}-{split}"),
            )
            for split in examples
        }
        counts = (f"{len(examples[s]):,} {s}" for s in examples)
        self.description = f"{task.name}: {', '.join(counts)} examples"

    def shuffled(self, first_step: int) -> tf.data.Dataset:
        return inputs.training_dataset(
            [self._paths["train"]],
            self._layout,
            self._settings.train_batch_size,
            seed=self._settings.trainer.seed,
            first_step=first_step,
        )

    def in_order(self, split: str) -> tf.data.Dataset:
        return inputs.evaluation_dataset(
            [self._paths[split]], self._layout, self._settings.splits[split]
        )


def _make_trainer(
    task: base.Task,
    config: modeling.AlbertConfig,
    steps: Steps,
    settings: FinetuningOptions,
    strategy: tf.distribute.Strategy,
) -> training.Trainer:
    if settings.do_train and not settings.init.init_checkpoint:
        logging.warning(
            "No --init_checkpoint: the encoder starts from random weights."
        )
    return training.Trainer(
        settings.output_dir,
        settings.trainer,
        strategy,
        training.Plan(
            lambda: task.make_model(modeling.AlbertModel(config)),
            lambda: optimization.make_optimizer(
                settings.optimizer, steps.train, steps.warmup
            ),
            task.objective,
            lambda model: checkpoints.initialize(
                model, settings.init, new_heads=True
            ),
        ),
    )
