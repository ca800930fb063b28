"""What a step needs, what the machine has, and what is said about it."""

import dataclasses
import types

import pytest

from albert_tf.model import config
from albert_tf.training import memory_check
from tests.conftest import refused

GIB = 2**30
SMALL = config.AlbertConfig(30000, 128, 256, 4, 1, 1, 4, 1024)
BASE = config.AlbertConfig(30000, 128, 768, 12, 1, 1, 12, 3072)
FEW_PIECES = dataclasses.replace(SMALL, vocab_size=400)
RELATIVE = dataclasses.replace(FEW_PIECES, position_bias="relative")
DROPOUT = dataclasses.replace(
    FEW_PIECES, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
)

# Config, examples, length, other values of `StepSize`, whether it is a training
# step, and the most MiB that a process held: measured on two cores from
# 2026-11-21 to 2026-11-27.
MEASURED = [
    (BASE, 8, 128, {"num_predictions": 20}, True, 1972),
    (BASE, 2, 512, {"num_predictions": 77}, True, 2226),
    (
        BASE,
        16,
        128,
        {"num_predictions": 20, "precision": "bfloat16"},
        True,
        1655,
    ),
    (BASE, 8, 384, {}, True, 2647),
    (SMALL, 256, 128, {"num_predictions": 20}, True, 6387),
    (SMALL, 256, 128, {"num_predictions": 20, "microbatches": 4}, True, 2320),
    (FEW_PIECES, 256, 128, {"num_predictions": 20}, True, 3716),
    (FEW_PIECES, 256, 128, {"recompute": True}, True, 2125),
    (DROPOUT, 256, 128, {"num_predictions": 20}, True, 4198),
    (DROPOUT, 16, 256, {"sequences": 4}, True, 2927),
    (RELATIVE, 128, 128, {"num_predictions": 20}, True, 2069),
    (
        RELATIVE,
        128,
        128,
        {"num_predictions": 20, "extra_tokens": 20},
        True,
        2378,
    ),
    (
        FEW_PIECES,
        128,
        128,
        {"num_predictions": 28, "extra_tokens": 28},
        True,
        2237,
    ),
    (SMALL, 256, 128, {"num_predictions": 20}, False, 3084),
    (FEW_PIECES, 512, 128, {}, False, 1393),
    (FEW_PIECES, 64, 256, {"sequences": 4}, False, 1666),
]


@pytest.mark.parametrize(
    ("shape", "examples", "length", "others", "is_training", "peak"), MEASURED
)
def test_estimates_are_within_a_factor_of_two(
    shape, examples, length, others, is_training, peak
):
    step = memory_check.StepSize(shape, length, **others)
    found = step.bytes_needed(examples, is_training=is_training) / 2**20
    assert peak / 2 < found < peak * 2


# Two groups of two inner layers, four times: 3 * 50 words, and twice two
# attentions of 4 * 8 * 8 and feed-forward layers of 2 * 8 * 5 entries.
TINY = config.AlbertConfig(50, 3, 8, 4, 2, 2, 2, 5)
WEIGHTS = 150 + 2 * (2 * 256 + 2 * 80)
# Six examples of two sequences in three parts: four sequences of 7 tokens with
# three predictions. Entries of the hidden states, of the inner layer and of
# the logits; of what passes four hidden states are the most.
TOKENS, LOGITS = 28, 600
HIDDEN, INNER = TOKENS * 8, TOKENS * 5
ALWAYS = 4 * (4 * WEIGHTS + 4 * HIDDEN + 3 * LOGITS)
BLOCK = 8 * HIDDEN + INNER
QUERIES = 4 * (7 + 5)
SCORES = QUERIES * 7 * 2


@pytest.mark.parametrize(
    ("changes", "others", "is_training", "expected"),
    [
        ({}, {}, True, ALWAYS + 4 * 8 * BLOCK),
        ({}, {"precision": "bfloat16"}, True, ALWAYS + 2 * 8 * BLOCK),
        ({}, {"recompute": True}, True, ALWAYS + 4 * 8 * HIDDEN),
        (
            {"attention_probs_dropout_prob": 0.1},
            {},
            True,
            ALWAYS + 4 * 8 * (BLOCK + 2 * 4 * 7 * 7 * 2),
        ),
        # 5 queries beside 7 tokens.
        (
            {"position_bias": "relative"},
            {"extra_tokens": 5},
            True,
            4 * (4 * WEIGHTS + 4 * QUERIES * 8 + 4 * SCORES + 3 * LOGITS)
            + 4 * 8 * (QUERIES * (8 * 8 + 5) + 2 * SCORES),
        ),
        # Not in parts.
        ({}, {}, False, 4 * (WEIGHTS + 3 * (6 * HIDDEN + 2 * LOGITS))),
        (
            {},
            {"length": 100, "num_predictions": 0},
            False,
            4 * (WEIGHTS + 3 * 3 * 4 * 100 * 100 * 2),
        ),
        (
            {"intermediate_size": 90},
            {"num_predictions": 0},
            False,
            4 * (WEIGHTS + 4 * 8 * 85 * 2 + 3 * 3 * TOKENS * 90),
        ),
    ],
)
def test_every_tensor_is_counted(changes, others, is_training, expected):
    shape = dataclasses.replace(
        TINY,
        **{
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            **changes,
        },
    )
    told = {
        "length": 7,
        "sequences": 2,
        "num_predictions": 3,
        "microbatches": 3,
    }
    step = memory_check.StepSize(shape, **{**told, **others})
    found = step.bytes_needed(6, is_training=is_training)
    assert found - memory_check.PROCESS == expected


# What is free.


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 8 + 1),
        ({"memory.max": "max"}, 9),
        (
            {
                "memory.max": 4 * GIB,
                "memory.current": 3 * GIB,
                "memory.stat": f"anon 7\ninactive_file {GIB}",
            },
            4 - 3 + 1,
        ),
        (
            {
                "memory/memory.limit_in_bytes": 20 * GIB,
                "memory/memory.usage_in_bytes": 15 * GIB,
                "memory/memory.stat": "anon 7",
            },
            5,
        ),
    ],
)
def test_system_and_container_limit_what_is_free(tmp_path, files, free):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(
        "MemTotal: 33554432 kB\nMemAvailable: 8388608 kB\n"
        "SwapFree: 1048576 kB\nHugePages_Total: 0\n"
    )
    for name, content in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    assert memory_check.free_host_memory(str(tmp_path)) == free * GIB
    assert memory_check.free_host_memory(str(tmp_path / "no Linux")) is None


def devices(*names):
    """A strategy on some devices."""
    extended = types.SimpleNamespace(worker_devices=names)
    return types.SimpleNamespace(
        extended=extended, num_replicas_in_sync=len(names)
    )


def test_of_several_gpus_the_smallest_counts(monkeypatch, caplog):
    found = [
        types.SimpleNamespace(device_type=kind, memory_limit=size)
        for kind, size in (("CPU", 1), ("GPU", 3 * GIB), ("GPU", 2 * GIB))
    ]
    monkeypatch.setattr(
        memory_check.device_lib, "list_local_devices", lambda: found
    )
    gpus = devices("/device:GPU:0", "/device:GPU:1")
    assert memory_check.free_memory(gpus) == 2 * GIB
    assert memory_check.free_memory(devices("/device:TPU:0")) is None
    # Each has half of a batch that needs twice as much and more.
    step = memory_check.StepSize(SMALL, 128, num_predictions=20)
    need = step.bytes_needed(512, is_training=True)
    assert 4 * GIB < need < 3 * 4 * GIB
    with refused():
        memory_check.check(step, gpus, "train_batch_size", 1024)
    assert 2 * GIB < step.bytes_needed(100, is_training=True)
    memory_check.check(step, gpus, "train_batch_size", 100)
    assert not caplog.messages


# What is said.


@pytest.fixture
def say(monkeypatch, caplog):
    """Checks a batch where a share of what it needs is free."""
    step = memory_check.StepSize(SMALL, 128)

    def check(share, option="train_batch_size"):
        is_training = option == "train_batch_size"
        need = step.bytes_needed(4096, is_training=is_training)
        monkeypatch.setattr(
            memory_check, "free_host_memory", lambda: share and share * need
        )
        caplog.clear()
        # Replicas on one CPU share its memory.
        cpus = devices("/device:CPU:0", "/device:CPU:1")
        memory_check.check(step, cpus, option, 4096)
        return caplog.messages

    return check


def test_a_batch_that_may_not_fit_is_warned_of(say):
    assert say(1.0) == say(None) == []
    (message,) = say(0.75)
    assert message == (
        "`train_batch_size=4096`: a training step needs about 28.9 GiB of "
        "memory, and 21.7 GiB are free. Use a smaller `train_batch_size` or "
        "`max_seq_length`, a larger `gradient_accumulation_steps` or "
        "`recompute`."
    )
    assert say(0.51, "eval_batch_size")[0].endswith(
        "are free. Use a smaller `eval_batch_size`."
    )
    for option in ("train_batch_size", "batch_size"):
        with refused(f"`{option}=4096`: a .*GiB"):
            say(0.49, option)
