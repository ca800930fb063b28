"""The options that all finetuning commands share."""

import dataclasses

from albert_tf.common import errors, ranges, shared_options
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import base
from albert_tf.model import compatibility, model_options
from albert_tf.model.config import POOLINGS, AlbertConfig
from albert_tf.text import tokenization
from albert_tf.training import training_options


@dataclasses.dataclass(frozen=True)
@checked
@shown(Training="train_step warmup_step num_train_epochs warmup_proportion")
class LengthOptions:
    """How many updates a run makes.

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
        """Return the numbers of updates of the run and of its warm-up."""
        train = self.train_step
        if train is None:
            epochs = self.num_train_epochs
            train = max(1, int(num_records * epochs / batch_size))
        warmup = self.warmup_step
        if warmup is None:
            warmup = int(train * self.warmup_proportion)
        training_options.check_warmup("warmup_step", warmup, train)
        return train, warmup


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Model="albert_config_file new_head hidden_dropout_prob "
    "attention_probs_dropout_prob pooling",
    Data="max_seq_length",
    Training="do_train do_eval do_predict train_batch_size eval_batch_size "
    "predict_batch_size early_stopping_evaluations num_runs "
    "exit_layers encoder_learning_rate",
    Output="output_dir cached_dir",
)
class FinetuningOptions:
    """Options that all finetuning scripts share."""

    albert_config_file: str = shared_options.albert_config_file(may_change=True)
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
    max_seq_length: int = shared_options.max_seq_length("longer is cut")
    pad_to_max: bool = option(
        False,
        "Whether to pad all examples to --max_seq_length, as on TPUs. By "
        "default examples of similar length share a batch, and each batch is "
        "as long as its longest example, rounded up.",
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
    train_batch_size: int = shared_options.batch_size(32)
    eval_batch_size: int = shared_options.batch_size(8, "evaluation batch")
    predict_batch_size: int = shared_options.batch_size(8, "prediction batch")
    early_stopping_evaluations: int = option(
        0,
        "Stop after so many evaluations in a row without a better score. 0: "
        "never.",
        within=ranges.STEPS_OR_NONE,
        may_change=True,
        needs="do_eval",
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
        needs="init_checkpoint",
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
    pooling: str | None = option(
        None,
        "What the head reads of the encoder. cls: the first token, as in the "
        "original. pair: for two texts, the means of their tokens, "
        "their difference and product; a missing text counts as 0. Other than "
        "cls, the pooler of a checkpoint with cls is replaced by a new one. "
        "Default: that of --albert_config_file, or else cls.",
        choices=POOLINGS,
    )
    num_hidden_layers: int | None = option(
        None,
        "Layers. Default: those of --albert_config_file. Where they share all "
        "weights, any number can be applied; with more than --init_checkpoint "
        "has, add --init_shallower.",
        within=ranges.Range(1, 1000),
    )
    exit_layers: str | None = option(
        None,
        "Depths such as 2,4,6 at which the head is trained, too, beside the "
        "last layer: `export` can then cut the model there, or stop where an "
        "answer is sure. Each counts in proportion to its layers.",
    )
    exit_heads: bool = option(
        False,
        "Whether the head's linear layer is another one at each of "
        "--exit_layers.",
        needs="exit_layers",
    )
    encoder_learning_rate: float | None = option(
        None,
        "Peak learning rate of the encoder without its pooler, at most "
        "--learning_rate. A lower one keeps more of what a small encoder has "
        "learned. 0: the encoder stays as it is. Default: --learning_rate.",
        within=ranges.Range(0, 10),
    )
    length: LengthOptions = LengthOptions()
    vocabulary: tokenization.VocabularyOptions = (
        tokenization.VocabularyOptions()
    )
    init: model_options.InitOptions = model_options.InitOptions()
    optimizer: model_options.OptimizerOptions = model_options.OptimizerOptions(
        optimizer="adamw", learning_rate=5e-5
    )
    trainer: training_options.TrainerOptions = training_options.TrainerOptions(
        save_checkpoints_steps=1000
    )
    devices: training_options.DistributionOptions = (
        training_options.DistributionOptions()
    )

    def __post_init__(self) -> None:
        self.vocabulary.require()
        if not (self.do_train or self.do_eval or self.do_predict):
            raise errors.UserError(
                "None of `do_train`, `do_eval` and `do_predict` is set. Set "
                "at least one."
            )
        if self.encoder_factor > 1:
            raise errors.UserError(
                f"`encoder_learning_rate={self.encoder_learning_rate}` is more "
                f"than `learning_rate={self.optimizer.learning_rate}`, that of "
                "pooler and head, which have more to learn. Use at most that, "
                "or set a higher `learning_rate`."
            )

    @property
    def encoder_factor(self) -> float:
        """The factor of the encoder's learning rate."""
        if self.encoder_learning_rate is None:
            return 1.0
        return self.encoder_learning_rate / self.optimizer.learning_rate

    def read_config(self) -> AlbertConfig:
        """Read the architecture, with dropout and pooling of the options."""
        config = AlbertConfig.from_json_file(self.albert_config_file)
        names = (
            "hidden_dropout_prob",
            "attention_probs_dropout_prob",
            "pooling",
            "num_hidden_layers",
        )
        overrides = {name: getattr(self, name) for name in names}
        changes = {k: v for k, v in overrides.items() if v is not None}
        return dataclasses.replace(config, **changes)


@dataclasses.dataclass(frozen=True)
@checked
@shown(Model="teacher teacher_weight temperature")
class TeacherOptions:
    """The teacher that a student learns from, beside its labels."""

    teacher: str | None = option(
        None,
        "Model that knows the task, whose answers for the training data are "
        "learned, too: the folder of a finetuned run, a Hugging Face folder "
        "with the task's head, for labels of texts a SavedModel, too, or the "
        "folder teacher-TASK-... that an earlier run wrote for the same data. "
        "Its vocabulary may be another, but not for SQuAD and tags.",
    )
    teacher_weight: float | None = option(
        None,
        "Share of the teacher in the loss; the labels have the rest. Default: "
        "0.5.",
        within=ranges.SHARE,
        needs="teacher",
    )
    temperature: float | None = option(
        None,
        "What the logits of both are divided by: more than 1 shows more of "
        "what the teacher thinks of the wrong answers. Default: 1.",
        within=ranges.Range(above=0, high=100),
        needs="teacher",
    )


@dataclasses.dataclass(frozen=True)
class TaskOptions:
    """The options that all finetuning commands share; each adds its own."""

    finetuning: FinetuningOptions


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="train_file dev_file test_file")
class FileOptions(TaskOptions):
    """The options of commands that take a file for each split."""

    train_file: str | None = option(
        None, "Examples for --do_train.", may_change=True, must_exist="do_train"
    )
    dev_file: str | None = option(
        None, "The same for --do_eval.", may_change=True, must_exist="do_eval"
    )
    test_file: str | None = option(
        None,
        "The same for --do_predict, scores or tags not needed.",
        may_change=True,
        must_exist="do_predict",
    )

    @property
    def sources(self) -> dict[str, str]:
        paths = {
            base.TRAIN: self.train_file,
            base.DEV: self.dev_file,
            base.TEST: self.test_file,
        }
        return {split: path for split, path in paths.items() if path}


def load_tokenizer(settings: FinetuningOptions) -> tokenization.AnyTokenizer:
    """Open the vocabulary; refuse one that belongs to another architecture."""
    config = settings.read_config()
    compatibility.check_length(
        settings.max_seq_length, config, settings.albert_config_file
    )
    return compatibility.load_tokenizer(
        settings.vocabulary, config, settings.albert_config_file
    )
