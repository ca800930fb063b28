"""The names of the record files, and checks of them."""

import glob
import os
import re
from collections.abc import Sequence

from albert_tf.common import errors, files

# What `--num_shards` appends to a name.
_SHARD = re.compile(r"-\d{5,}-of-\d{5,}(\.gz)?$")


def split(output_file: str, num_shards: int | None) -> list[str]:
    """Return the files that the options name."""
    outputs = [path.strip() for path in output_file.split(",")]
    outputs = [path for path in outputs if path]
    if not outputs:
        raise errors.UserError(
            "--output_file is empty. Give one or more paths, separated by "
            "commas, for example --output_file=records/train.tfrecord."
        )
    if num_shards is not None:
        if len(outputs) > 1:
            raise errors.UserError(
                f"--output_file names {len(outputs)} files, and --num_shards="
                f"{num_shards} is given too. Name one file to be divided, or "
                "drop --num_shards."
            )
        name, gz = outputs[0], ""
        if name.endswith(".gz"):
            name, gz = name.removesuffix(".gz"), ".gz"
        outputs = [
            f"{name}-{shard:05d}-of-{num_shards:05d}{gz}"
            for shard in range(num_shards)
        ]
    seen: set[str] = set()
    for path in outputs:
        if files.is_remote(path):
            raise errors.UserError(
                f"--output_file={path} is not on this machine. Unfinished work "
                "is kept beside the output, so it must be in a local folder. "
                "Copy the finished files."
            )
        if os.path.realpath(path) in seen:
            raise errors.UserError(
                f"--output_file names {path} twice. Every output must be a "
                "different file. Remove one of them."
            )
        seen.add(os.path.realpath(path))
    return outputs


def work_place(output_file: str) -> str:
    """Return the folder for unfinished work, whatever the number of shards."""
    return f"{output_file.split(',')[0].strip()}.work"


def check(
    inputs: Sequence[str], outputs: Sequence[str], output_file: str
) -> None:
    """Refuse outputs that are inputs, patterns, folders, or among others."""
    for path in outputs:
        if any(character in path for character in "*?["):
            raise errors.UserError(
                f"--output_file={path} looks like a pattern. Outputs are plain "
                "paths, separated by commas. Write out the names."
            )
        if os.path.isdir(path) or path.endswith("/"):
            raise errors.UserError(
                f"--output_file={path} is a folder. The name of a file is "
                f"needed. Use {os.path.join(path, 'train.tfrecord')}."
            )
        for ending in ("", *files.BESIDE_RECORDS):
            files.require_replaceable(path + ending, "output_file")
    _refuse_own_files(inputs, outputs, output_file)
    _refuse_other_shards(outputs)


def _refuse_own_files(
    inputs: Sequence[str], outputs: Sequence[str], output_file: str
) -> None:
    """Refuse inputs that are outputs of this run, or belong to them."""
    own = {
        os.path.realpath(path) + ending
        for path in outputs
        for ending in ("", *files.BESIDE_RECORDS)
    }
    work = os.path.join(os.path.realpath(work_place(output_file)), "")
    for path in inputs:
        if os.path.realpath(path) in own or os.path.realpath(path).startswith(
            work
        ):
            raise errors.UserError(
                f"--input_file: {path} is also an input, but it is "
                f"--output_file={output_file} or belongs to it. Inputs must be "
                "other files. Choose another --output_file, in a folder of its "
                "own, or a narrower --input_file."
            )


def _refuse_other_shards(outputs: Sequence[str]) -> None:
    """Refuse outputs beside shards of another set: a pattern would mix them."""
    for stem in dict.fromkeys(_SHARD.sub("", path) for path in outputs):
        if stem in outputs:
            continue  # No shard.
        pattern = glob.escape(stem) + "-[0-9]*"
        others = [
            path
            for path in sorted(glob.glob(pattern))
            if _SHARD.sub("", path) == stem
            and _SHARD.search(path)
            and path not in outputs
        ]
        if others:
            raise errors.UserError(
                f"--output_file: {others[0]} is a shard of another set, one of "
                f"{len(others)}. Beside the new ones it would be read again by "
                f"the pattern {stem}-*. Remove these files, or choose another "
                "--output_file."
            )
