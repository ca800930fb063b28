"""Which devices a run uses, as a tf.distribute strategy."""

import contextlib
import os
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.common import errors, preemption, strict_json
from albert_tf.training import training_options

_ROLES = ("chief", "worker")  # Types in TF_CONFIG of processes that train.


def make_strategy(
    options: training_options.DistributionOptions,
) -> tf.distribute.Strategy:
    """Make the strategy; call this before anything else touches TensorFlow."""
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
                "`distribution_strategy=multi_worker_mirrored` needs "
                "`worker_hosts` and `task_index`, or TF_CONFIG in the "
                "environment: without them every machine would train alone."
            )
        return _make_multi_worker_strategy()
    device = "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"
    return tf.distribute.OneDeviceStrategy(device)


def _make_multi_worker_strategy() -> tf.distribute.Strategy:
    text = os.environ["TF_CONFIG"]
    reason = "it needs `cluster` and `task`, or this process would train alone"
    try:
        config = strict_json.loads(text)
        task = config.get("task") if isinstance(config, dict) else None
        if task and config.get("cluster"):
            role = task.get("type") if isinstance(task, dict) else task
            # TensorFlow takes any other one, too, and would train alone.
            if role in _ROLES:
                return tf.distribute.MultiWorkerMirroredStrategy()
            reason = (
                f"its task has the type {role!r}, not one of "
                f"{', '.join(_ROLES)}. To evaluate beside a pretraining, start "
                "this process without TF_CONFIG and with `follow_checkpoints`"
            )
    except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
        reason = str(error).rstrip(".")
    raise errors.UserError(
        f"TF_CONFIG={text} does not describe the workers: {reason}. Write it "
        "as TensorFlow documents it, or give `worker_hosts` and `task_index`."
    )


def _make_tpu_strategy(
    options: training_options.DistributionOptions,
) -> tf.distribute.Strategy:
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
            f"`tpu_name={options.tpu_name}` cannot be reached: {error}. Check "
            "the name, `tpu_zone` and `gcp_project`, and that tensorflow-tpu "
            "is installed; or leave out `distribution_strategy=tpu`."
        ) from None
    return tf.distribute.TPUStrategy(resolver)


def check_batch(
    strategy: tf.distribute.Strategy,
    batch_size: int,
    option_name: str,
    microbatches: int = 1,
) -> None:
    """Refuse a batch that replicas and microbatches cannot share equally."""
    replicas = strategy.num_replicas_in_sync
    if batch_size <= 0 or batch_size % (replicas * microbatches):
        times = ""
        if microbatches > 1:
            times = f" times `gradient_accumulation_steps={microbatches}`"
        raise errors.UserError(
            f"`{option_name}={batch_size}` is not a positive multiple of the "
            f"{replicas} replica(s) of this run{times}. It counts examples "
            "over all of them."
        )


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Tell whether this process, the first worker, writes the run's files."""
    return _worker_index(strategy) == 0


def worker_folder(strategy: tf.distribute.Strategy, folder: str) -> str:
    """Return the folder in which this worker writes; the chief's is `folder`.

    All workers take part in saving a checkpoint; only the chief's is kept.
    """
    index = _worker_index(strategy)
    return os.path.join(folder, f"worker_{index}") if index else folder


def _worker_index(strategy: tf.distribute.Strategy) -> int:
    resolver = strategy.cluster_resolver
    if resolver is None or resolver.task_type is None:
        return 0
    if resolver.task_type == "worker":
        chiefs = len(resolver.cluster_spec().as_dict().get("chief", []))
        return int(resolver.task_id) + chiefs
    return 0


class Workers:
    """Exchanges numbers among the processes of a run, each time a barrier.

    A run of one process gets back its own.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        # Made once: what TensorFlow offers would be traced at every call.
        self._gather = tf.function(self._gather_numbers, autograph=False)

    @property
    def is_alone(self) -> bool:
        return not self.strategy.extended._in_multi_worker_mode()

    @contextlib.contextmanager
    def ending_together(self) -> Iterator[None]:
        """End this process when another one is gone: no exchange can succeed.

        Raises:
            SystemExit: One is; the code is `preemption.EXIT_CODE`.
        """
        try:
            yield
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            if self.is_alone:
                raise
            logging.error(
                "Another worker has ended or cannot be reached. Checkpoints "
                "are kept. Exit status %d. Run the same command of every "
                "worker again to continue. TensorFlow says: %s",
                preemption.EXIT_CODE,
                error.message,
            )
            raise SystemExit(preemption.EXIT_CODE) from None

    def gather(self, *numbers: float) -> np.ndarray:
        """Return all replicas' numbers, float64 [replicas, n], chief first."""
        if self.is_alone:
            return np.array([numbers], np.float64)
        row = tf.constant([numbers], tf.float64)
        return np.asarray(self._gather(row))

    def chief_value(self, value: bool) -> bool:
        """Return the chief's value in all processes: they must decide alike."""
        return bool(self.gather(float(value))[0, 0])

    def all_agree(self, value: bool) -> bool:
        """Tell whether the value is true in all processes."""
        return bool(self.gather(float(value)).all())

    def _gather_numbers(self, numbers: tf.Tensor) -> tf.Tensor:
        def gather_in_replica(numbers: tf.Tensor) -> tf.Tensor:
            replica = tf.distribute.get_replica_context()
            row = tf.one_hot(
                replica.replica_id_in_sync_group,
                self.strategy.num_replicas_in_sync,
                dtype=tf.float64,
            )
            return replica.all_reduce(
                tf.distribute.ReduceOp.SUM, row[:, None] * numbers
            )

        gathered = self.strategy.run(gather_in_replica, [numbers])
        return self.strategy.experimental_local_results(gathered)[0]
