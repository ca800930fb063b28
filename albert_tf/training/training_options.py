"""Options of updates, training and devices.

Imports no TensorFlow, so that commands can check options before they load it.
"""

import dataclasses
import re

from albert_tf.common import errors, ranges
from albert_tf.common.options import checked, option, shown
from albert_tf.model import config

AUTO = "auto"  # See `processors.settle_precision`.
STRATEGIES = ("one_device", "mirrored", "multi_worker_mirrored", "tpu")


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Training="seed", Devices="precision recompute gradient_accumulation_steps"
)
class UpdateOptions:
    """How an update is computed."""

    precision: str = option(
        "float32",
        "What matrix products are computed in. Weights, norms and softmax are "
        "float32 always; float16 scales its loss. auto: bfloat16 on TPUs, "
        "GPUs, and processors with instructions for it, else float32; the run "
        "keeps it.",
        choices=(*config.PRECISIONS, AUTO),
    )
    weight_precision: str = option(
        "float32",
        "int8: weights that lose nothing with convert_checkpoint "
        "--format=int8. Evaluations, the best checkpoint and the last part of "
        "training have rounded weights; the optimizer keeps them in float32.",
        choices=("float32", "int8"),
    )
    quantize_from: float = option(
        0.8,
        "The share of the training after which the updates are those of "
        "rounded weights.",
        within=ranges.Range(0, 1),
        needs="weight_precision=int8",
    )
    recompute: bool = option(
        False,
        "Whether to compute each layer again for its gradient, which needs "
        "less memory and about a quarter more time.",
        may_change=True,
    )
    gradient_accumulation_steps: int = option(
        1,
        "Microbatches that each replica's share of a batch is cut into, one "
        "after the other, so that a large batch needs little memory. The "
        "update is that of the whole batch.",
        within=ranges.BATCH,
        may_change=True,
    )
    seed: int = option(
        12345,
        "Seed of initial weights, order of examples, dropout, masks that are "
        "drawn in training, and replaced tokens.",
        within=ranges.SEED,
    )

    @property
    def round_from(self) -> float | None:
        """What `rounding.Rounding` takes."""
        return self.quantize_from if self.weight_precision == "int8" else None


@dataclasses.dataclass(frozen=True)
@checked
@shown(Training="save_checkpoints_steps keep_checkpoint_max max_minutes")
class TrainerOptions(UpdateOptions):
    """How updates are computed, logged, saved and limited."""

    iterations_per_loop: int = option(
        1000,
        "Steps between two lines of progress.",
        within=ranges.STEPS,
        may_change=True,
    )
    save_checkpoints_steps: int = option(
        5000,
        "Steps between checkpoints (and evaluations).",
        within=ranges.STEPS,
        may_change=True,
    )
    keep_checkpoint_max: int = option(
        5,
        "Checkpoints to keep, beside the best one.",
        within=ranges.Range(1, 10**6),
        may_change=True,
    )
    max_minutes: float = option(
        0.0,
        "Minutes for training and its evaluations, with those of earlier "
        "starts up to their last checkpoint. The learning rate falls to 0 at "
        "the limit, or at the last step if that comes first; the warm-up "
        "keeps its share of the run. 0: no limit.",
        within=ranges.Range(0, 10**7),
    )
    profile_steps: str | None = option(
        None,
        "Two steps, such as 10,20, between which TensorBoard's profiler runs.",
        may_change=True,
    )

    def __post_init__(self) -> None:
        first, _, last = (self.profile_steps or "0,1").partition(",")
        are_steps = first.isdecimal() and last.isdecimal()
        if not are_steps or int(first) >= int(last):
            raise errors.UserError(
                f"`profile_steps={self.profile_steps}` is not two steps, the "
                "smaller first. Write, for example, `profile_steps=10,20`."
            )

    def next_stop(self, step: int, num_train_steps: int) -> int:
        """Return the next step that is logged or saved."""
        every, saving = self.iterations_per_loop, self.save_checkpoints_steps
        return min(
            num_train_steps,
            (step // every + 1) * every,
            (step // saving + 1) * saving,
        )


@dataclasses.dataclass(frozen=True)
@checked
@shown(Devices="distribution_strategy worker_hosts task_index tpu_name")
class DistributionOptions:
    """The devices of a run; without dropout, results do not depend on them."""

    distribution_strategy: str = option(
        "one_device",
        "one_device: the first GPU, else the CPU; mirrored: all GPUs of this "
        "machine; multi_worker_mirrored: several machines; tpu.",
        choices=STRATEGIES,
        may_change=True,
    )
    worker_hosts: str | None = option(
        None,
        "For multi_worker_mirrored: host:port of all workers, with commas, the "
        "same in every process. Default: what TF_CONFIG says.",
        may_change=True,
        needs="distribution_strategy=multi_worker_mirrored",
    )
    task_index: int = option(
        0,
        "For --worker_hosts: which of them this process is, from 0.",
        within=ranges.Range(0, 10**5),
        may_change=True,
    )
    use_tpu: bool = option(
        False,
        "The original's name for --distribution_strategy=tpu.",
        may_change=True,
    )
    tpu_name: str | None = option(
        None,
        "Name or address of the TPU; 'local' on a TPU VM.",
        may_change=True,
    )
    tpu_zone: str | None = option(
        None, "Zone of the TPU, if it differs from the VM's.", may_change=True
    )
    gcp_project: str | None = option(
        None,
        "Project of the TPU, if it differs from the VM's.",
        may_change=True,
    )

    def __post_init__(self) -> None:
        hosts = self.workers
        if len(set(hosts)) < len(hosts) or not all(
            re.fullmatch(r"[^:\s]+:\d+", host) for host in hosts
        ):
            raise errors.UserError(
                f"`worker_hosts={self.worker_hosts}` is not a list of "
                "different host:port with commas, such as "
                "host0:2222,host1:2222."
            )
        if self.task_index >= max(len(hosts), 1):
            raise errors.UserError(
                f"`task_index={self.task_index}` is not the number of one of "
                f"the {len(hosts)} `worker_hosts`. They count from 0."
            )
        if self.on_tpu and not self.tpu_name:
            raise errors.UserError(
                "`distribution_strategy=tpu` needs `tpu_name`. On a TPU VM use "
                "`tpu_name=local`, elsewhere the name of the TPU."
            )

    @property
    def workers(self) -> list[str]:
        if self.worker_hosts is None:
            return []
        return [host.strip() for host in self.worker_hosts.split(",")]

    @property
    def on_tpu(self) -> bool:
        return self.use_tpu or self.distribution_strategy == "tpu"


def check_warmup(
    name: str, num_warmup_steps: int, num_train_steps: int
) -> None:
    if num_warmup_steps > num_train_steps:
        raise errors.UserError(
            f"`{name}={num_warmup_steps}` is more than the {num_train_steps} "
            "steps of the run. Use fewer; a tenth to a fortieth of them is "
            "usual."
        )
