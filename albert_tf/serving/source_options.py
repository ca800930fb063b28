"""Options of what is exported; imports no TensorFlow."""

import dataclasses
from typing import Any

from albert_tf.common import (
    configs,
    errors,
    options,
    ranges,
    shared_options,
    slices,
)
from albert_tf.common.options import checked, option, shown
from albert_tf.text import tokenization

# What slices must be told about a checkpoint, a part of the options for each.
_PARTS = {
    name: part
    for name in slices.SLICES
    if (part := slices.load(name, "task").TASK.export_options)
}
TASKS = (
    *("encoder", "pretraining", "classifier", "regression"),
    *sorted(_PARTS),
)
# Those that any run has.
_OF_ANY_RUN = ("encoder", "embedding", "pretraining")
OF_SLICES = {name: options.names(part) for name, part in _PARTS.items()}
SliceOptions = dataclasses.make_dataclass(
    "SliceOptions",
    [
        (name, part, dataclasses.field(default=part()))
        for name, part in _PARTS.items()
    ],
    frozen=True,
)


@dataclasses.dataclass(frozen=True)
@checked
@shown(Model="albert_config_file num_labels labels pairs")
class CheckpointOptions:
    """What a checkpoint of no run may not say itself."""

    albert_config_file: str | None = option(
        None,
        "Architecture of --init_checkpoint. Default: the file beside it.",
        must_exist=True,
        names=configs.config_names,
    )
    num_labels: int | None = option(
        None,
        "Classes of --task=classifier. Default: those of its weights.",
        within=ranges.TOKENS,
        needs="task=classifier",
    )
    labels: str | None = option(
        None,
        "Their names, separated by commas. Default: those of a Hugging Face "
        "folder, else 0,1,...",
        needs="task=classifier",
    )
    pairs: bool | None = option(
        None,
        "Whether --task=classifier or regression takes pairs of texts.",
        needs="task=classifier|regression",
    )


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Model="run_dir checkpoint init_checkpoint task",
    Data="task_module max_seq_length",
    Output="depth",
)
class SourceOptions:
    """Where the weights are, and what they were trained for."""

    run_dir: str | None = option(
        None,
        "The --output_dir of run_pretraining, run_classifier, ...",
        positional=True,
        must_exist=True,
    )
    checkpoint: str | None = option(
        None,
        "Checkpoint of --run_dir to export. Default: the best, else the "
        "latest.",
        needs="run_dir",
    )
    task_module: str | None = shared_options.task_module()
    init_checkpoint: str | None = option(
        None,
        "Any checkpoint, instead of --run_dir; that of a finetuned run with "
        "--task=encoder only.",
        must_exist=True,
        names=configs.checkpoint_names,
    )
    task: str | None = option(
        None,
        "What --init_checkpoint was trained for, or embedding: a vector for "
        "each text. With --run_dir, encoder or embedding: leave its head out; "
        "pretraining: the masked words of a run of distill.",
        choices=TASKS,
    )
    depth: int | None = option(
        None,
        "Layers to apply, the first ones: those of the run's --exit_layers, "
        "or, where all layers are the same, any number. Default: all.",
        within=ranges.Range(1, 1000),
    )
    # Without one: that of the run, or the only one beside the checkpoint.
    vocabulary: tokenization.VocabularyOptions = (
        tokenization.VocabularyOptions()
    )
    max_seq_length: int | None = option(
        None,
        "Tokens of a sequence made from text; longer text is cut. Default: "
        "that of the run; for a checkpoint 384 for squad, for embedding that "
        "of a sentence-transformers folder, else all positions.",
        within=ranges.TOKENS,
    )
    of_checkpoint: CheckpointOptions = options.part(
        CheckpointOptions(), needs="init_checkpoint"
    )
    of_slices: SliceOptions = SliceOptions()  # type: ignore[valid-type]

    def __post_init__(self) -> None:
        if bool(self.run_dir) == bool(self.init_checkpoint):
            raise errors.UserError(
                "`run_dir` and `init_checkpoint`: exactly one of the two is "
                "needed. The first is the folder of a run, the second any "
                "checkpoint."
            )
        if self.init_checkpoint and not self.task:
            raise errors.UserError(
                f"`init_checkpoint={self.init_checkpoint}` needs `task`: what "
                f"it was trained for, one of {', '.join(TASKS)}."
            )
        if self.run_dir and self.task not in (None, *_OF_ANY_RUN):
            raise errors.UserError(
                f"`task={self.task}` is given with `run_dir`, whose folder "
                "knows its task. Leave `task` out, or use one of "
                f"{', '.join(_OF_ANY_RUN)}."
            )

    @property
    def given(self) -> dict[str, Any]:
        values = options.to_dict(self).items()
        return {name: value for name, value in values if value is not None}
