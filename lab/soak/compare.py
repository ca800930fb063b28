"""Describes a folder's content, to compare two runs bit by bit.

One entry for each file, checkpoint tensor and line of metrics. Times are left
out: metrics (seconds and rates), run cards, checkpoint state files, TensorBoard
files (whose names contain times).
"""

import hashlib
import json
import pathlib
import re
from collections.abc import Iterator

# Links to the shared inputs, and logs of the soak test itself.
NOT_RESULTS = ("inputs", "log")
# Only their presence is compared: they contain times, and a graph its nodes in
# varying order.
_PRESENT = re.compile(
    r"run_card\.md|learning_curves\.png|.*\.card\.(md|png)"
    r"|(saved_model|fingerprint)\.pb"
)
# Keys of JSON files that vary: the size of a graph, because of the order of its
# nodes, and the ports of workers.
_VARYING = {"export.json": "bytes", "run_options.json": "worker_hosts"}
_METRIC_TIMES = {
    "time",
    "examples_per_second",
    "tokens_per_second",
    "gigaflops",
    "peak_memory_mb",
}


def describe(folder: pathlib.Path) -> dict[str, str]:
    """Return name and content (text or SHA-256) of everything in it."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if name.parts[0] in NOT_RESULTS:
            continue
        if path.is_dir():
            if not any(path.iterdir()):
                found[f"{name}/"] = "empty"
            continue
        for key, value in _content(path):
            found[f"{name}{key}"] = value
    return found


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Return the names that are in only one, or that differ."""
    return sorted(
        name
        for name in one.keys() | other.keys()
        if one.get(name) != other.get(name)
    )


def _content(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yield the entries of a file: suffix of the name, and value."""
    name = path.name
    if name.startswith("events.out.tfevents"):
        return
    if re.fullmatch(r".*\.data-\d+-of-\d+", name):
        yield "", "data"
    elif name.endswith(".index"):
        yield from _tensors(str(path).removesuffix(".index"))
    elif name == "metrics.jsonl":
        yield from _numbers(path.read_text())
    elif name == "checkpoint":
        yield "", " ".join(re.findall(r'path: "(.*)"', path.read_text()))
    elif name in _VARYING:
        values = json.loads(path.read_text())
        for place in (values, values.get("options", {})):
            place.pop(_VARYING[name], None)
        yield "", json.dumps(values, sort_keys=True)
    elif _PRESENT.fullmatch(name):
        yield "", "there"
    else:
        yield "", hashlib.sha256(path.read_bytes()).hexdigest()


def _tensors(prefix: str) -> Iterator[tuple[str, str]]:
    """Yield all tensors of a checkpoint except the elapsed time."""
    import tensorflow as tf  # Slow to import: checkpoints only.

    try:
        reader = tf.train.load_checkpoint(prefix)
        for name in sorted(reader.get_variable_to_shape_map()):
            if name.startswith("elapsed/"):
                continue
            value = reader.get_tensor(name)
            content = value if isinstance(value, bytes) else value.tobytes()
            kind = "bytes" if isinstance(value, bytes) else value.dtype.str
            shape = () if isinstance(value, bytes) else value.shape
            digest = hashlib.sha256(content).hexdigest()
            yield f" {name}", f"{kind} {shape} {digest}"
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        yield "", f"cannot be read: {error}"


def _numbers(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a log without times and without the facts line."""
    place = 0
    for line in text.splitlines():
        values = json.loads(line)
        if values["split"] == "facts":
            continue
        kept = {k: v for k, v in values.items() if k not in _METRIC_TIMES}
        yield f" line {place}", json.dumps(kept, sort_keys=True)
        place += 1
