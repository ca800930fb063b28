"""The names of the record files, and checks of them."""

import glob
import itertools
import os
import re
from collections.abc import Sequence
from typing import Any

from albert_tf.common import errors, files, outputs

# What `--num_shards` appends to a name.
_SHARD = re.compile(r"-\d{5,}-of-\d{5,}(\.gz)?$")


def split(output_file: str, num_shards: int | None) -> list[str]:
    """Return the paths of all shards that the options name."""
    paths = [path.strip() for path in output_file.split(",")]
    paths = [path for path in paths if path]
    if not paths:
        raise errors.UserError(
            "--output_file is empty. Give one or more paths, separated by "
            "commas, for example --output_file=records/train.tfrecord."
        )
    if num_shards is not None:
        if len(paths) > 1:
            raise errors.UserError(
                f"--output_file names {len(paths)} files, and --num_shards="
                f"{num_shards} is given too. Name one file to be divided, or "
                "drop --num_shards."
            )
        name, gz = paths[0], ""
        if name.endswith(".gz"):
            name, gz = name.removesuffix(".gz"), ".gz"
        paths = [
            f"{name}-{shard:05d}-of-{num_shards:05d}{gz}"
            for shard in range(num_shards)
        ]
    for path in paths:
        if files.is_remote(path):
            raise errors.UserError(
                f"--output_file={path} is not on this machine. Unfinished work "
                "is kept beside the output, so it must be in a local folder. "
                "Copy the finished files."
            )
    return paths


def work_folder_path(output_file: str) -> str:
    """Return the folder for unfinished work, whatever the number of shards."""
    return f"{output_file.split(',')[0].strip()}.work"


def description_paths(paths: Sequence[str]) -> dict[str, list[str]]:
    """Return the paths of manifest and card, by the first shard of a folder."""
    endings = files.BESIDE_RECORDS[:3]  # Without unfinished files.
    firsts = {os.path.dirname(path): path for path in reversed(paths)}
    return {
        path: [path + ending for ending in endings] for path in firsts.values()
    }


def check(settings: Any, paths: Sequence[str]) -> None:
    """Refuse outputs that are inputs, patterns, not files, or named twice.

    Other shards of the same name are refused as well.
    """
    for path in paths:
        if any(character in path for character in "*?["):
            raise errors.UserError(
                f"--output_file={path} looks like a pattern. Outputs are plain "
                "paths, separated by commas. Write out the names."
            )
    # `same_job` checks files that exist.
    written = [*paths, *itertools.chain(*description_paths(paths).values())]
    outputs.check(settings, "output_file", written, is_own=True)
    work = work_folder_path(settings.output_file)
    outputs.refuse_inputs(settings, "output_file", [work])
    _refuse_other_shards(paths)


def _refuse_other_shards(paths: Sequence[str]) -> None:
    """Refuse outputs beside shards of another set: a pattern would mix them."""
    for stem in dict.fromkeys(_SHARD.sub("", path) for path in paths):
        if stem in paths:
            continue  # No shard.
        pattern = glob.escape(stem) + "-[0-9]*"
        others = [
            path
            for path in sorted(glob.glob(pattern))
            if _SHARD.sub("", path) == stem
            and _SHARD.search(path)
            and path not in paths
        ]
        if others:
            raise errors.UserError(
                f"--output_file: {others[0]} is a shard of another set, one of "
                f"{len(others)}. Beside the new ones it would be read again by "
                f"the pattern {stem}-*. Remove these files, or choose another "
                "--output_file."
            )
