"""Options of pretraining alone: objectives, schedule, first weights.

Those of every trainer are in `training_options`.
"""

import dataclasses
import functools
import re

from albert_tf.common import errors, ranges
from albert_tf.common.options import checked, option
from albert_tf.data import arrangements, marks, stages
from albert_tf.model import model_options
from albert_tf.training import training_options


@dataclasses.dataclass(frozen=True)
@checked
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
    generator_size: float = option(
        0.25,
        "For --objective=rtd: width and heads of the generator, as a share of "
        "the encoder's.",
        within=ranges.Range(above=0, high=1),
        needs="objective=rtd",
    )
    generator_sharing: str = option(
        "embeddings",
        "For --objective=rtd: the weights that generator and encoder share. "
        "With all, the encoder is the generator.",
        choices=model_options.GENERATOR_SHARING,
        needs="objective=rtd",
    )
    replaced_token_factor: float = option(
        50.0,
        "For --objective=rtd: what the loss of replaced tokens is multiplied "
        "with. --masked_lm_factor is for the generator's loss.",
        within=ranges.Range(0, 1000),
        needs="objective=rtd",
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
    token_factor: float = option(
        1.0,
        "What the losses of --token_objective are multiplied with.",
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
    init: model_options.InitOptions = model_options.InitOptions()
    optimizer: model_options.OptimizerOptions = model_options.OptimizerOptions()

    def __post_init__(self) -> None:
        training_options.check_warmup(
            "num_warmup_steps", self.num_warmup_steps, self.num_train_steps
        )
        arrangements.parse(self.sentence_objective)
        arrangements.parse_tokens(self.token_objective)
        self._check_stages()
        self._check_markers()
        self._check_word_embeddings()
        self._check_generator()

    @property
    def task_shares(self) -> tuple[stages.Stage, ...]:
        return stages.parse(self.task_stages)

    def _check_stages(self) -> None:
        """Refuse stages that are none, or never begin."""
        shares = [stage.value.split("/") for stage in self.task_shares]
        sizes = [len(found) for found in shares]
        tasks = arrangements.parse(self.sentence_objective)
        if self.task_stages is not None and not (
            sizes == sorted(sizes)
            and sizes[-1:] == [len(tasks)]
            and all(re.fullmatch("[1-9][0-9]?", s) for n in shares for s in n)
        ):
            raise errors.UserError(
                f"`task_stages={self.task_stages}` does not say how often each "
                f"of `sentence_objective={self.sentence_objective}` is drawn. "
                "Write shares from 1 to 99, for the first tasks and in the "
                "last stage for all, such as 1:9000,1/2."
            )
        for name, found in (
            ("mask_levels", self.levels),
            ("task_stages", self.task_shares),
        ):
            for start, value in found:
                if start >= self.num_train_steps:
                    raise errors.UserError(
                        f"`{name}={getattr(self, name)}` begins {value} after "
                        f"{start} steps, but the run has "
                        f"`num_train_steps={self.num_train_steps}`. Give the "
                        "stages before it fewer steps, or leave it out."
                    )

    @functools.cached_property
    def markers(self) -> tuple[tuple[str, ...], ...]:
        """The forms of each marker of `markers_file`."""
        path = self.markers_file
        return () if path is None else arrangements.read_markers(path)

    def _check_markers(self) -> None:
        tasks = arrangements.parse(self.sentence_objective)
        if ("discourse" in tasks) != (self.markers_file is not None):
            given = f"={self.markers_file}" if self.markers_file else ""
            raise errors.UserError(
                f"`markers_file{given}` goes with "
                "`sentence_objective=discourse`, and that with a file of "
                "markers. Give both or neither."
            )

    @property
    def levels(self) -> tuple[stages.Stage, ...]:
        found = stages.parse(self.mask_levels)
        is_known = found and {stage.value for stage in found} <= {*marks.LEVELS}
        if self.mask_levels is not None and not is_known:
            raise errors.UserError(
                f"`mask_levels={self.mask_levels}` is not some of "
                f"{', '.join(marks.LEVELS)}, with commas, each but the last "
                "with its number of steps. Write such as "
                "basic:9000,phrase:3000,entity."
            )
        return found

    def _check_word_embeddings(self) -> None:
        path = self.word_embeddings_file
        if path is not None and not path:
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

    def _check_generator(self) -> None:
        size = self.generator_size
        allowed = 1, RecipeOptions.generator_size
        if self.generator_sharing == "all" and size not in allowed:
            raise errors.UserError(
                f"`generator_size={size}` does not fit "
                "`generator_sharing=all`, where the encoder is the generator. "
                "Leave out one of the two."
            )
