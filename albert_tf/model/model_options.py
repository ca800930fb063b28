"""Options of initial weights and of the optimizer; imports no TensorFlow."""

import dataclasses

from albert_tf.common import errors, ranges
from albert_tf.common.options import checked, option, shown

# What is learned about the tokens; see `training.systems`.
OBJECTIVES = ("mlm", "rtd", "plm", "spans")
# What generator and encoder share: nothing; the embeddings of words, segments
# and positions with their norm; all weights. Source: ELECTRA §3.2.
GENERATOR_SHARING = ("none", "embeddings", "all")

OPTIMIZERS = ("lamb", "adamw", "muon")


@dataclasses.dataclass(frozen=True)
@checked
@shown(Model="init_checkpoint")
class InitOptions:
    """The weights that a run starts from."""

    init_checkpoint: str | None = option(
        None,
        "Checkpoint to start from: a prefix such as FOLDER/model.ckpt-best, "
        "the folder of a run, or a Hugging Face folder. Without it all weights "
        "start from random values.",
    )
    init_from_group0: bool = option(
        False,
        "Whether groups of layers that --init_checkpoint lacks start from its "
        "first group: unshares a shared model.",
        needs="init_checkpoint",
    )
    init_shallower: bool = option(
        False,
        "Whether --init_checkpoint may have fewer layers than the model: each "
        "of its layers then fills several in a row. With parameters shared by "
        "all layers nothing is copied; the same layer is applied more often.",
        needs="init_checkpoint",
    )
    new_weights: str | None = option(
        None,
        "Scopes that start from random values although --init_checkpoint is "
        "given, separated by commas, such as cls/seq_relationship.",
        needs="init_checkpoint",
    )

    def __post_init__(self) -> None:
        if self.init_checkpoint is not None and not self.init_checkpoint:
            raise errors.UserError(
                "`init_checkpoint` is empty. Name a checkpoint, or leave it "
                "out to start from random weights."
            )
        if self.init_from_group0 and self.init_shallower:
            raise errors.UserError(
                "`init_from_group0` and `init_shallower` contradict each "
                "other. The first is for models of the same depth."
            )

    @property
    def layers(self) -> str:
        """How the model's layers follow from those of the checkpoint.

        same: they are the same. group0: groups that the checkpoint lacks take
        the weights of its only group. shallower: it may have fewer layers, see
        `_shallower_names` (ALBERT appendix A.1).
        """
        if self.init_from_group0:
            return "group0"
        return "shallower" if self.init_shallower else "same"

    @property
    def new_scopes(self) -> tuple[str, ...]:
        scopes = (self.new_weights or "").split(",")
        return tuple(s.strip().strip("/") for s in scopes if s.strip())


@dataclasses.dataclass(frozen=True)
@checked
@shown(Training="optimizer learning_rate")
class OptimizerOptions:
    """How weights are updated."""

    optimizer: str = option(
        "lamb",
        "Optimizer. muon: Muon for the kernels of linear layers, AdamW for "
        "all else.",
        choices=OPTIMIZERS,
    )
    bias_correction: bool = option(
        False,
        "Whether the moments are corrected for their start at 0, as in Adam's "
        "paper. The original does not, so its first updates are up to 6.6 "
        "times as large.",
    )
    beta_2: float = option(
        0.999,
        "Share of the second moment that an update keeps. RoBERTa took 0.98 "
        "for large batches.",
        within=ranges.Range(0.001, below=1),
    )
    learning_rate: float = option(
        0.00176,
        "Peak learning rate. LAMB's grows with the square root of the batch: "
        "0.00176 is for 4096.",
        within=ranges.LEARNING_RATE,
    )
    poly_power: float = option(
        1.0, "Power of the polynomial decay.", within=ranges.Range(0, 100)
    )
    start_warmup_step: int = option(
        0, "Step at which the warm-up begins.", within=ranges.STEPS_OR_NONE
    )
    original_start_warmup: bool = option(
        False,
        "Whether the rate before --start_warmup_step is the original's, which "
        "continues the line of the warm-up below 0; for comparisons.",
    )
