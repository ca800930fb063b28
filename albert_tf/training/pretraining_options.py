"""Options of pretraining alone: objectives, schedule, first weights.

Those of every trainer are in `training_options`.
"""

import dataclasses
import functools
import re

from albert_tf.common import errors, options, ranges, shared_options
from albert_tf.common.options import checked, option, shown
from albert_tf.data import (
    arrangements,
    layouts,
    marks,
    masking,
    span_corruption,
    stages,
)
from albert_tf.model import model_options
from albert_tf.text import tokenization
from albert_tf.training import training_options


@dataclasses.dataclass(frozen=True)
@checked
class RtdOptions:
    """The generator that replaces tokens, and what telling them counts."""

    generator_size: float = option(
        0.25,
        "For --objective=rtd: width and heads of the generator, as a share of "
        "the encoder's.",
        within=ranges.Range(above=0, high=1),
    )
    generator_sharing: str = option(
        "embeddings",
        "For --objective=rtd: the weights that generator and encoder share. "
        "With all, the encoder is the generator.",
        choices=model_options.GENERATOR_SHARING,
    )
    replaced_token_factor: float = option(
        50.0,
        "For --objective=rtd: what the loss of replaced tokens is multiplied "
        "with. --masked_lm_factor is for the generator's loss.",
        within=ranges.Range(0, 1000),
    )

    def __post_init__(self) -> None:
        size = self.generator_size
        allowed = 1, RtdOptions.generator_size
        if self.generator_sharing == "all" and size not in allowed:
            raise errors.UserError(
                f"`generator_size={size}` does not fit "
                "`generator_sharing=all`, where the encoder is the generator. "
                "Leave out one of the two."
            )


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="mask_levels", Training="task_embeddings markers_file")
class PassageOptions:
    """What is drawn of records that hold passages, beside the sentences."""

    task_stages: str | None = option(
        None,
        "How often each task of --sentence_objective is drawn, in stages, "
        "such as 1:9000,1/2:6000,1/1/3 for three: ERNIE 2.0 adds one after "
        "the other and keeps the earlier ones. Each stage but the last has "
        "its steps. Default: all equally often.",
    )
    task_embeddings: bool = option(
        False,
        "Whether each task of --sentence_objective has embeddings of segments "
        "of its own, as ERNIE 2.0 tells its tasks apart: the config's "
        "type_vocab_size is twice the number of tasks. Finetuning has those "
        "of the first.",
    )
    markers_file: str | None = option(
        None,
        "For --sentence_objective=discourse: the discourse markers that "
        "sentences lose, a class on each line; further forms of a marker "
        "follow after tabs.",
    )
    token_objective: str = option(
        "none",
        "What is predicted about the pieces that start words, with "
        "--records=passages: ERNIE 2.0's capitalization (an upper-case first "
        "letter in the text), token_document (whether the document has the "
        "piece elsewhere, too), or both with a comma.",
    )
    mask_levels: str | None = option(
        None,
        "What is hidden as one, in stages as in ERNIE 1.0, with "
        "--records=passages: basic (pieces), phrase or entity, with commas, "
        "and the steps of each stage but the last, such as "
        "basic:9000,phrase:3000,entity. Default: words.",
        needs="objective=mlm|rtd",
    )
    token_factor: float = option(
        1.0,
        "What the losses of --token_objective are multiplied with.",
        within=ranges.Range(0, 1000),
    )

    def __post_init__(self) -> None:
        _ = self.token_tasks, self.levels

    def check(self, sentence_objective: str, num_train_steps: int) -> None:
        """Refuse stages and markers that do not fit the tasks or the steps."""
        tasks = arrangements.parse(sentence_objective)
        shares = [stage.value.split("/") for stage in self.task_shares]
        sizes = list(map(len, shares))
        if self.task_stages is not None and not (
            sizes == sorted(sizes)
            and sizes[-1:] == [len(tasks)]
            and all(re.fullmatch("[1-9][0-9]?", s) for n in shares for s in n)
        ):
            raise errors.UserError(
                f"`task_stages={self.task_stages}` does not say how often each "
                f"of `sentence_objective={sentence_objective}` is drawn. "
                "Write shares from 1 to 99, for the first tasks and in the "
                "last stage for all, such as 1:9000,1/2."
            )
        for name in ("mask_levels", "task_stages"):
            for start, value in stages.parse(getattr(self, name)):
                if start >= num_train_steps:
                    raise errors.UserError(
                        f"`{name}={getattr(self, name)}` begins {value} after "
                        f"{start} steps, but the run has "
                        f"`num_train_steps={num_train_steps}`. Give the "
                        "stages before it fewer steps, or leave it out."
                    )
        if ("discourse" in tasks) != (self.markers_file is not None):
            value = f"={self.markers_file}" if self.markers_file else ""
            raise errors.UserError(
                f"`markers_file{value}` goes with "
                "`sentence_objective=discourse`, and that with a file of "
                "markers. Give both or neither."
            )

    @property
    def token_tasks(self) -> tuple[str, ...]:
        return arrangements.parse_tokens(self.token_objective)

    @property
    def task_shares(self) -> tuple[stages.Stage, ...]:
        return stages.parse(self.task_stages)

    @functools.cached_property
    def markers(self) -> tuple[tuple[str, ...], ...]:
        """The forms of each marker of `markers_file`."""
        path = self.markers_file
        return () if path is None else arrangements.read_markers(path)

    @property
    def levels(self) -> tuple[stages.Stage, ...]:
        levels = stages.parse(self.mask_levels)
        is_known = levels and {stage.value for stage in levels} <= {
            *marks.LEVELS
        }
        if self.mask_levels is not None and not is_known:
            raise errors.UserError(
                f"`mask_levels={self.mask_levels}` is not some of "
                f"{', '.join(marks.LEVELS)}, with commas, each but the last "
                "with its number of steps. Write such as "
                "basic:9000,phrase:3000,entity."
            )
        return levels


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Model="word_embeddings_file",
    Training="objective sentence_objective num_train_steps num_warmup_steps",
)
class RecipeOptions:
    """What is learned, and how the updates go: the recipe of a pretraining."""

    objective: str = option(
        "mlm",
        "What is learned about the tokens. mlm: masked words; rtd: which "
        "tokens a small generator, trained along, has replaced, as in ELECTRA; "
        "plm: some tokens in a random order, each from those before it, as in "
        "XLNet; spans: hidden spans, written by a decoder, as in T5. The last "
        "two are for records without masks.",
        choices=model_options.OBJECTIVES,
    )
    sentence_objective: str = option(
        "sop",
        "What is predicted about the segments, beside the masked words. sop: "
        "whether they are swapped; nsp: whether the second is from elsewhere, "
        "as in BERT; none: nothing. The records must have been written for it. "
        "With --records=passages also ERNIE 2.0's reordering (of up to three "
        "segments), distance and discourse (--markers_file), ERNIE 1.0's "
        "dialogue, or several with commas, one for each example.",
    )
    masked_lm_factor: float = option(
        1.0,
        "What the loss of masked words is multiplied with.",
        within=ranges.Range(0, 1000),
        needs="objective=mlm|rtd|plm",
    )
    sentence_factor: float = option(
        1.0,
        "What the loss of --sentence_objective is multiplied with.",
        within=ranges.Range(0, 1000),
    )
    num_train_steps: int = option(
        125_000,
        "Step to stop at, where the learning rate is 0.",
        within=ranges.STEPS,
    )
    num_warmup_steps: int = option(
        3125, "Steps of linear warm-up.", within=ranges.STEPS_OR_NONE
    )
    init_schedule: str = option(
        "restart",
        "Step and moments of the optimizer. restart: they start from 0; "
        "continue: they come from --init_checkpoint, and so does the place in "
        "the data.",
        choices=("restart", "continue"),
        may_change=True,
        needs="init_checkpoint",
    )
    word_embeddings_file: str | None = option(
        None,
        "Word embeddings to start from, of data_prep.make_word_embeddings, "
        "for the encoder and a generator; all else starts from random weights. "
        "Not with --init_checkpoint.",
    )
    rtd: RtdOptions = options.part(RtdOptions(), needs="objective=rtd")
    passages: PassageOptions = options.part(
        PassageOptions(), needs="records=passages", but=("token_factor",)
    )
    init: model_options.InitOptions = model_options.InitOptions()
    optimizer: model_options.OptimizerOptions = model_options.OptimizerOptions()

    def __post_init__(self) -> None:
        training_options.check_warmup(
            "num_warmup_steps", self.num_warmup_steps, self.num_train_steps
        )
        self.passages.check(self.sentence_objective, self.num_train_steps)
        path = self.word_embeddings_file
        if path == "":
            raise errors.UserError(
                "`word_embeddings_file` is empty. Name a file of "
                "data_prep.make_word_embeddings, or leave it out to start from "
                "random embeddings."
            )
        if path and self.init.init_checkpoint:
            raise errors.UserError(
                f"`word_embeddings_file={path}` does not go with "
                "`init_checkpoint`, which has word embeddings of its own. "
                "Leave out one of the two."
            )

    @property
    def sentinels(self) -> int:
        """Number of ids of the model that stand for spans, as in T5."""
        return span_corruption.SENTINELS if self.objective == "spans" else 0


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Data="input_file eval_input_file max_seq_length records masked_lm_budget "
    "pack_sequences"
)
class RecordOptions:
    """The records, and what is drawn of them."""

    input_file: str = option(
        help="TFRecords to train on: files or glob patterns, with commas.",
        may_change=True,
        must_exist="do_train",
    )
    eval_input_file: str | None = option(
        None,
        "TFRecords to evaluate on. Default: --input_file, as in the original, "
        "which measures on training data.",
        may_change=True,
        must_exist="do_eval",
    )
    max_seq_length: int = shared_options.max_seq_length("as in the records")
    records: str = option(
        "instances",
        "What the records hold. instances: segments and their label; passages: "
        "text (--records=passages of the writer), from which segments, labels "
        "and masks (--masked_lm_budget) are drawn afresh every time.",
        choices=layouts.KINDS,
        needs="masked_lm_budget",
    )
    masked_lm_budget: int = option(
        0,
        "Most pieces to hide in a sequence, for records that hold no masks "
        "(--masking_time=training of the writer): they are masked afresh "
        "every time. 0: the records hold masks; of the options of masking "
        "only --max_predictions_per_seq is used, and must be theirs.",
        within=ranges.Range(0, 2**16),
    )
    pack_sequences: bool = option(
        False,
        "Whether short examples share a row in training, each attending only "
        "to itself. --train_batch_size then counts rows. Faster where many "
        "records are shorter than --max_seq_length; evaluation has a row for "
        "each example.",
        needs="records=instances",
    )
    # Optional: checked against the records, and copied into the folder of the
    # run so that export finds it.
    vocabulary: tokenization.VocabularyOptions = (
        tokenization.VocabularyOptions()
    )
    masks: masking.MaskingOptions = options.part(
        masking.MaskingOptions(),
        needs="masked_lm_budget",
        but=("max_predictions_per_seq",),
    )

    def __post_init__(self) -> None:
        if self.masks.do_permutation:
            raise errors.UserError(
                "`do_permutation` is not done in training. Drop it, or write "
                "records with masks."
            )
        if self.masked_lm_budget:
            self.vocabulary.require()

    def check(self, recipe: RecipeOptions) -> None:
        """Refuse objectives that cannot be trained on records of this kind."""
        if recipe.objective in ("plm", "spans"):  # They choose targets.
            self._check_targets(recipe)
        if self.records == "passages":
            single_units = (
                self.masks.ngram == 1 and self.masks.do_whole_word_mask
            )
            levels = recipe.passages.mask_levels
            if levels and not single_units:
                raise errors.UserError(
                    f"`mask_levels={levels}` hides single units. Set "
                    "`ngram=1`, with `do_whole_word_mask`."
                )
            return
        tasks = arrangements.parse(recipe.sentence_objective)
        is_known = not tasks[1:] and {*tasks} <= {*arrangements.INSTANCE_TASKS}
        if not is_known:
            raise errors.UserError(
                f"`sentence_objective={recipe.sentence_objective}` needs "
                "`records=passages`, and records that the writer made with "
                "this option, too."
            )

    def _check_targets(self, recipe: RecipeOptions) -> None:
        """Refuse options that do not fit an objective with its own targets."""
        if not self.masked_lm_budget:
            raise errors.UserError(
                f"`objective={recipe.objective}` chooses in training what "
                "it asks for. Give records without masks "
                "(`masking_time=training`) and `masked_lm_budget`, the most "
                "pieces of a sequence (85 of 512 in XLNet and T5)."
            )
        values = {**options.to_dict(self), **options.to_dict(recipe)}
        needed = {
            **options.to_dict(masking.MaskingOptions()),
            "sentence_objective": "none",
            "pack_sequences": False,
            "token_objective": "none",
        }
        for name, value in needed.items():
            if values[name] != value:
                raise errors.UserError(
                    f"`objective={recipe.objective}` has a rule of its "
                    "own for what it asks for, predicts nothing beside and has "
                    f"a row for each example. Set `{name}={value}`."
                )
        spans = span_corruption.count_spans(self.masked_lm_budget)
        if recipe.objective == "spans" and (spans > span_corruption.SENTINELS):
            raise errors.UserError(
                f"`masked_lm_budget={self.masked_lm_budget}` are {spans} "
                f"spans; there are ids for {span_corruption.SENTINELS}. Use "
                "300 or less."
            )

    @property
    def num_predictions(self) -> int:
        """Positions that the masked-word head looks at."""
        return self.masked_lm_budget or self.masks.max_predictions_per_seq

    @property
    def layout(self) -> layouts.Layout:
        if self.records == "passages":
            return layouts.passage_layout(self.max_seq_length)
        layout = layouts.pretraining_layout(
            self.max_seq_length, self.masks.max_predictions_per_seq
        )
        return (
            layouts.without_masks(layout) if self.masked_lm_budget else layout
        )


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Model="albert_config_file",
    Training="do_train do_eval train_batch_size eval_batch_size "
    "max_eval_steps best_metric",
    Output="output_dir",
)
class PretrainingOptions:
    """Options of run_pretraining."""

    data: RecordOptions
    albert_config_file: str = shared_options.albert_config_file(may_change=True)
    output_dir: str = option(
        help="Folder for checkpoints, logs and the run card.", may_change=True
    )
    do_train: bool = option(True, "Whether to train.", may_change=True)
    do_eval: bool = option(False, "Whether to evaluate.", may_change=True)
    train_batch_size: int = shared_options.batch_size(4096)
    eval_batch_size: int = shared_options.batch_size(64, "evaluation batch")
    max_eval_steps: int = option(
        100,
        "Batches per evaluation, at most.",
        within=ranges.STEPS,
        may_change=True,
    )
    best_metric: str | None = option(
        None,
        "Number of the evaluation that chooses model.ckpt-best: a loss or an "
        "accuracy. Default: masked_lm_accuracy, with --objective=rtd the loss, "
        "with spans target_accuracy.",
        may_change=True,
    )
    follow_checkpoints: bool = option(
        False,
        "With --do_eval and --nodo_train: evaluate every checkpoint that "
        "another process, which has no --do_eval, writes into --output_dir, "
        "until that of --num_train_steps.",
        may_change=True,
        needs=("do_eval", "do_train=False"),
    )
    recipe: RecipeOptions = RecipeOptions()
    trainer: training_options.TrainerOptions = training_options.TrainerOptions()
    devices: training_options.DistributionOptions = (
        training_options.DistributionOptions()
    )

    def __post_init__(self) -> None:
        if not (self.do_train or self.do_eval):
            raise errors.UserError(
                "Neither `do_train` nor `do_eval` is set. Set at least one."
            )
        self.data.check(self.recipe)
        if self.trainer.max_minutes and self.recipe.init_schedule == "continue":
            raise errors.UserError(
                "`max_minutes` is not for `init_schedule=continue`, whose "
                "learning rate ends at `num_train_steps`. Leave one out."
            )
