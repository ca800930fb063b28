"""Compare what a step needs with the memory there is, before the first one.

On CPUs, TensorFlow 2.20 ends with a segmentation fault where a matrix product
finds no memory: oneDNN's fused product does not check the allocation.
"""

import dataclasses
import pathlib

import tensorflow as tf
from absl import logging
from tensorflow.python.client import device_lib

from albert_tf.common import errors
from albert_tf.model.config import AlbertConfig

# What a process needs beside the tensors of a step.
PROCESS = 850 * 2**20
# Estimates are right within this factor; what needs more is refused.
_ACCURACY = 2


@dataclasses.dataclass(frozen=True)
class StepSize:
    """What the memory of a training step, or of a batch of inference, needs.

    Attributes:
        config: Of the encoder. A generator is smaller, and not counted.
        length: Tokens of a sequence.
        sequences: Of an example that go through the encoder together.
        num_predictions: Masked tokens of a sequence; 0 without that head.
        extra_tokens: Tokens for each sequence that layers compute beside its
            own: queries of permutations, or the target of a decoder.
    """

    config: AlbertConfig
    length: int
    sequences: int = 1
    num_predictions: int = 0
    precision: str = "float32"
    recompute: bool = False
    microbatches: int = 1
    extra_tokens: int = 0

    def bytes_needed(self, examples: int, *, is_training: bool) -> float:
        """Return about how many bytes a step or batch of examples needs."""
        config = self.config
        microbatches = self.microbatches if is_training else 1
        rows = examples * self.sequences / microbatches
        tokens = rows * (self.length + self.extra_tokens)
        # Numbers of entries.
        hidden = tokens * config.hidden_size
        inner = tokens * config.intermediate_size
        scores = tokens * self.length * config.num_attention_heads
        logits = rows * self.num_predictions * config.vocab_size
        # What one layer needs only while it is computed.
        temporary = max(2 * scores, 2 * inner, 4 * hidden)
        # Scores of all distances and what is chosen of them, for each query.
        biases = scores if config.position_bias == "relative" else 0
        temporary += 4 * biases
        if not is_training:
            entries = self._num_weights + 1.5 * temporary + 2 * logits
            return PROCESS + 4 * entries
        layer = 8 * hidden + inner + 2 * biases
        if config.attention_probs_dropout_prob:
            layer += 2 * scores
        layers = config.num_hidden_layers * config.inner_group_num
        kept = layers * (hidden if self.recompute else layer)
        # Weights, gradients and two moments.
        entries = 4 * self._num_weights + temporary + 3 * logits
        bytes_kept = 4 if self.precision == "float32" else 2
        return PROCESS + 4 * entries + bytes_kept * kept

    @property
    def _num_weights(self) -> int:
        """The number of entries of the large matrices."""
        config = self.config
        width, inner = config.hidden_size, config.intermediate_size
        attentions, ffns = (
            len(set(x)) for x in zip(*config.layer_groups, strict=True)
        )
        layers = 4 * width**2 * attentions + 2 * width * inner * ffns
        words = config.embedding_size * config.vocab_size
        return words + config.inner_group_num * layers


def check(
    step: StepSize, strategy: tf.distribute.Strategy, option: str, size: int
) -> None:
    """Warn of a batch that may not fit; refuse one that certainly does not.

    Args:
        option: What gives the batch, over all replicas; `train_batch_size`
            means training.
    """
    on_cpu = "CPU" in strategy.extended.worker_devices[0]
    # Replicas on CPUs share one memory.
    devices = 1 if on_cpu else strategy.num_replicas_in_sync
    is_training = option == "train_batch_size"
    need = step.bytes_needed(size // devices, is_training=is_training)
    free = free_memory(strategy)
    if free is None or need <= free:
        return
    work, advice = ("a training step" if is_training else "a batch"), ""
    if is_training:
        advice = (
            " or `max_seq_length`, a larger `gradient_accumulation_steps` or "
            "`recompute`"
        )
    message = (
        f"`{option}={size}`: {work} needs about {need / 2**30:,.1f} GiB "
        f"of memory, and {free / 2**30:,.1f} GiB are free. Use a smaller "
        f"`{option}`{advice}."
    )
    if need > _ACCURACY * free:
        raise errors.UserError(message)
    logging.warning("%s", message)


def free_memory(strategy: tf.distribute.Strategy) -> int | None:
    """Return the free bytes of a device; None if not known, as for TPUs."""
    device = strategy.extended.worker_devices[0]
    if "CPU" in device:
        return free_host_memory()
    devices = device_lib.list_local_devices() if "GPU" in device else []
    limits = [d.memory_limit for d in devices if d.device_type == "GPU"]
    return min(limits, default=None)


def free_host_memory(root: str = "/") -> int | None:
    """Return the bytes that the system and the container leave on Linux."""
    path = pathlib.Path(root, "proc/meminfo")
    if not path.exists():
        return None
    rows = (line.split() for line in path.read_text().splitlines())
    sizes = {row[0]: int(row[1]) * 1024 for row in rows}
    free = sizes["MemAvailable:"] + sizes["SwapFree:"]
    group = pathlib.Path(root, "sys/fs/cgroup")
    for most, used in (  # Versions 2 and 1 of cgroups.
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit = group / most
        if limit.exists() and limit.read_text().strip() != "max":
            lines = (limit.parent / "memory.stat").read_text().splitlines()
            cache = dict(line.split() for line in lines).get("inactive_file", 0)
            taken = int((group / used).read_text()) - int(cache)
            free = min(free, int(limit.read_text()) - taken)
    return free
