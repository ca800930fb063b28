"""Which devices a run uses, as a tf.distribute strategy."""

import dataclasses
import os
import re

import numpy as np
import tensorflow as tf

from albert_tf import errors, ranges, strict_json
from albert_tf.options import checked, option

STRATEGIES = ("one_device", "mirrored", "multi_worker_mirrored", "tpu")


@dataclasses.dataclass(frozen=True)
@checked
class DistributionOptions:
    """Where a run happens; without dropout the results do not depend on it."""

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
                f"--worker_hosts={self.worker_hosts} is not a list of "
                "different host:port with commas, such as "
                "host0:2222,host1:2222."
            )
        if hosts and self.distribution_strategy != "multi_worker_mirrored":
            raise errors.UserError(
                f"--worker_hosts={self.worker_hosts} needs "
                "--distribution_strategy=multi_worker_mirrored."
            )
        if self.task_index >= max(len(hosts), 1):
            raise errors.UserError(
                f"--task_index={self.task_index} is not the number of one of "
                f"the {len(hosts)} --worker_hosts. They count from 0."
            )
        if self.on_tpu and not self.tpu_name:
            raise errors.UserError(
                "--distribution_strategy=tpu needs --tpu_name. On a TPU VM use "
                "--tpu_name=local, elsewhere the name of the TPU."
            )

    @property
    def workers(self) -> list[str]:
        """The addresses in `worker_hosts`."""
        if self.worker_hosts is None:
            return []
        return [host.strip() for host in self.worker_hosts.split(",")]

    @property
    def on_tpu(self) -> bool:
        """Whether the run happens on a TPU."""
        return self.use_tpu or self.distribution_strategy == "tpu"


def make_strategy(options: DistributionOptions) -> tf.distribute.Strategy:
    """Make the strategy; call this before anything else touches TensorFlow.

    Raises:
        errors.UserError: The TPU cannot be reached.
    """
    if options.on_tpu:
        return _make_tpu_strategy(options)
    if options.distribution_strategy == "mirrored":
        return tf.distribute.MirroredStrategy()
    if options.distribution_strategy == "multi_worker_mirrored":
        if options.workers:
            os.environ["TF_CONFIG"] = strict_json.dumps(
                {
                    "cluster": {"worker": options.workers},
                    "task": {"type": "worker", "index": options.task_index},
                }
            )
        elif "TF_CONFIG" not in os.environ:
            raise errors.UserError(
                "--distribution_strategy=multi_worker_mirrored needs "
                "--worker_hosts and --task_index, or TF_CONFIG in the "
                "environment: without them every machine would train alone."
            )
        return tf.distribute.MultiWorkerMirroredStrategy()
    device = "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"
    return tf.distribute.OneDeviceStrategy(device)


def _make_tpu_strategy(options: DistributionOptions) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=options.tpu_name,
            zone=options.tpu_zone,
            project=options.gcp_project,
        )
        if options.tpu_name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (tf.errors.OpError, ValueError) as error:
        raise errors.UserError(
            f"--tpu_name={options.tpu_name} cannot be reached: {error}. Check "
            "the name, --tpu_zone and --gcp_project, and that tensorflow-tpu "
            "is installed; or drop --distribution_strategy=tpu."
        ) from None
    return tf.distribute.TPUStrategy(resolver)


def check_batch(
    strategy: tf.distribute.Strategy,
    batch_size: int,
    option_name: str,
    parts: int = 1,
) -> None:
    """Refuse a batch that replicas and parts cannot share equally.

    Args:
        strategy: The devices.
        batch_size: Examples over all replicas.
        option_name: Where the size came from, for messages.
        parts: The `gradient_accumulation_steps` of training.

    Raises:
        errors.UserError: It is no positive multiple of replicas times parts.
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size <= 0 or batch_size % (replicas * parts):
        cut = f" times --gradient_accumulation_steps={parts}"
        raise errors.UserError(
            f"--{option_name}={batch_size} is not a positive multiple of the "
            f"{replicas} replica(s) of this run{cut if parts > 1 else ''}. It "
            "counts examples over all of them."
        )


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Tell whether this process writes what one process has to write."""
    return _worker_number(strategy) == 0


def worker_folder(strategy: tf.distribute.Strategy, folder: str) -> str:
    """Return where this process writes what all have to write.

    All workers of a run take part in saving a checkpoint; only that of the
    first is kept.
    """
    number = _worker_number(strategy)
    return os.path.join(folder, f"worker_{number}") if number else folder


def _worker_number(strategy: tf.distribute.Strategy) -> int:
    resolver = strategy.cluster_resolver
    if resolver is None or resolver.task_type is None:
        return 0
    if resolver.task_type == "worker":
        chiefs = len(resolver.cluster_spec().as_dict().get("chief", []))
        return int(resolver.task_id) + chiefs
    return 0


class Agreement:
    """Lets the processes of a run see each other's numbers.

    With one process they are its own. Every call is also a barrier.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        """Prepare for a strategy."""
        self._strategy = strategy
        # Made once: what TensorFlow offers would be traced at every call.
        self._gather = tf.function(self._gather_numbers, autograph=False)

    @property
    def is_alone(self) -> bool:
        """Whether there is one process only."""
        return not self._strategy.extended._in_multi_worker_mode()

    def gather(self, *numbers: float) -> np.ndarray:
        """Return the numbers of all, float64 [replicas, numbers], chief first.

        Every process must call this at the same point.
        """
        if self.is_alone:
            return np.array([numbers], np.float64)
        gathered: np.ndarray = self._gather(
            tf.constant([numbers], tf.float64)
        ).numpy()
        return gathered

    def of_chief(self, value: bool) -> bool:
        """Return what the chief has, so that all do the same."""
        return bool(self.gather(float(value))[0, 0])

    def _gather_numbers(self, numbers: tf.Tensor) -> tf.Tensor:
        def everywhere(numbers: tf.Tensor) -> tf.Tensor:
            replica = tf.distribute.get_replica_context()
            row = tf.one_hot(
                replica.replica_id_in_sync_group,
                self._strategy.num_replicas_in_sync,
                dtype=tf.float64,
            )
            return replica.all_reduce(
                tf.distribute.ReduceOp.SUM, row[:, None] * numbers
            )

        found = self._strategy.run(everywhere, [numbers])
        return self._strategy.experimental_local_results(found)[0]
