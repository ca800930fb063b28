"""What pretraining trains for, from which weights, at which rate.

Shared by run_pretraining and export_train_step, so that the same options make
the same update.
"""

import dataclasses

from albert_tf import (
    checkpoints,
    errors,
    modeling,
    objectives,
    optimization,
    ranges,
    records,
)
from albert_tf.heads import pretraining
from albert_tf.options import checked, option


@dataclasses.dataclass(frozen=True)
@checked
class RecipeOptions:
    """Options of an update in pretraining."""

    sentence_objective: str = option(
        "sop",
        "What is asked about the segments, beside the masked words. sop: "
        "whether they are swapped; nsp: whether the second is from elsewhere, "
        "as in BERT; none: nothing. The records must have been written for it.",
        choices=pretraining.SENTENCE_OBJECTIVES,
    )
    masked_lm_factor: float = option(
        1.0,
        "What the loss of masked words is multiplied with.",
        within=ranges.Range(0, 1000),
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
        "What becomes of step and moments of --init_checkpoint. restart: they "
        "begin anew; continue: they go on, and so does the place in the data.",
        choices=("restart", "continue"),
        may_change=True,
    )
    init: checkpoints.InitOptions = dataclasses.field(
        default_factory=checkpoints.InitOptions
    )
    optimizer: optimization.OptimizerOptions = dataclasses.field(
        default_factory=optimization.OptimizerOptions
    )

    def __post_init__(self) -> None:
        if self.num_warmup_steps > self.num_train_steps:
            raise errors.UserError(
                f"--num_warmup_steps={self.num_warmup_steps} is more than "
                f"--num_train_steps={self.num_train_steps}. A tenth to a "
                "fortieth of the steps is usual."
            )
        if self.init_schedule == "continue" and not self.init.init_checkpoint:
            raise errors.UserError(
                "--init_schedule=continue says how to use --init_checkpoint, "
                "which is not given."
            )

    @property
    def objective(self) -> objectives.Objective:
        """What is trained for."""
        return pretraining.make_objective(
            self.sentence_objective, self.masked_lm_factor, self.sentence_factor
        )

    def make_model(
        self, config: modeling.AlbertConfig, precision: str, recompute: bool
    ) -> pretraining.AlbertPretrainer:
        """Return a model with random weights; see `modeling.AlbertModel`."""
        encoder = modeling.AlbertModel(
            config, precision=precision, recompute=recompute
        )
        return pretraining.AlbertPretrainer(
            encoder, sentence_order=self.sentence_objective != "none"
        )

    def make_optimizer(self, by_the_clock: bool = False) -> optimization.AdamW:
        """Return the optimizer; see `optimization.make_optimizer`."""
        return optimization.make_optimizer(
            self.optimizer,
            self.num_train_steps,
            self.num_warmup_steps,
            by_the_clock=by_the_clock,
        )


def check_length(
    max_seq_length: int, config: modeling.AlbertConfig, config_file: str
) -> None:
    """Raise `errors.UserError` where positions are too few for the length."""
    if max_seq_length > config.max_position_embeddings:
        raise errors.UserError(
            f"--max_seq_length={max_seq_length} is longer than the "
            f"{config.max_position_embeddings} positions of {config_file}. Use "
            "at most that, or a config with more max_position_embeddings."
        )


def written_objective(manifest: records.Manifest) -> str:
    """Return which sentence objective the labels of records belong to."""
    if written := manifest.options.get("sentence_objective"):
        return str(written)
    return "nsp" if manifest.options.get("random_next_sentence") else "sop"
