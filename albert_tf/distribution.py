"""Which devices a run uses, as a tf.distribute strategy."""

import dataclasses

import tensorflow as tf

from albert_tf import errors
from albert_tf.options import option

STRATEGIES = ("one_device", "mirrored", "multi_worker_mirrored", "tpu")


@dataclasses.dataclass(frozen=True)
class DistributionOptions:
    """Where a run happens. The results do not depend on it."""

    distribution_strategy: str = option(
        "one_device",
        "one_device: the first GPU, else the CPU; mirrored: all GPUs of this "
        "machine; multi_worker_mirrored: the machines of TF_CONFIG; tpu.",
        choices=STRATEGIES,
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
        if self.on_tpu and not self.tpu_name:
            raise errors.UserError(
                "--distribution_strategy=tpu needs --tpu_name. On a TPU VM use "
                "--tpu_name=local, elsewhere the name of the TPU."
            )

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
