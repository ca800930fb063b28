"""Compare the options, text and vocabulary of earlier work or records."""

import os
import unicodedata
from collections.abc import Sequence
from typing import Any

import sentencepiece

from albert_tf.common import files, imports, options, outputs
from albert_tf.data import manifests
from data_prep.writer import (
    output_files,
    text_lines,
    word_starts,
    writer_options,
)

metadata = imports.later("importlib.metadata")

# Options that do not change the content of the records. The content of the
# vocabulary and the names of the outputs are compared separately.
_NOT_CONTENT = frozenset(
    {
        *("overwrite", "num_workers", "dask_scheduler"),
        *("vocab_file", "spm_model_file", "output_file", "num_shards"),
    }
)
_FORMAT = 8  # Of unfinished work; work of another format is not continued.


def describe(
    settings: writer_options.CreatePretrainingDataOptions,
    inputs: Sequence[str],
    paths: Sequence[str],
    vocab_sha256: str,
) -> dict[str, Any]:
    """Return all that unfinished work depends on, as JSON values."""
    return {
        "format": _FORMAT,
        "options": content_options(options.to_dict(settings)),
        "vocabulary": vocab_sha256,
        "versions": versions(settings),
        # Size and time of a file change with its content.
        "inputs": {
            path: []
            if path == text_lines.STANDARD_INPUT
            else list(files.size_and_time(path))
            for path in inputs
        },
        "outputs": [os.path.realpath(path) for path in paths],
    }


def versions(
    settings: writer_options.CreatePretrainingDataOptions,
) -> dict[str, str]:
    """Return versions of the packages and data that tokenize and split text."""
    result = {"unicode": unicodedata.unidata_version}
    if settings.vocabulary.kind == "spm_model_file":
        result["sentencepiece"] = sentencepiece.__version__
    if settings.text.split_sentences:
        result["sentencex"] = metadata.version("sentencex")
    return result | word_starts.versions(settings.word_segmenter)


def changes(before: dict[str, Any], job: dict[str, Any]) -> list[str]:
    """Return a line for each difference between two jobs of `describe`."""
    lines = _changed_options(before["options"], job["options"])
    if before.get("format") != job["format"]:
        lines.append("it was started by another version of this program")
    if before["vocabulary"] != job["vocabulary"]:
        lines.append("the vocabulary file had other content")
    # Earlier formats have no versions.
    versions_before = {**job["versions"], **before.get("versions", {})}
    lines += [
        f"the version of {change}"
        for change in outputs.changes(versions_before, job["versions"])
    ]
    then, now = before["inputs"], job["inputs"]
    if then.keys() != now.keys():
        count = "1 file" if len(then) == 1 else f"{len(then):,} files"
        names = [f"{path} is new" for path in now if path not in then]
        names += [f"{path} is missing now" for path in then if path not in now]
        lines.append(f"--input_file gave {count}, now {len(now):,}; {names[0]}")
    lines += [
        f"the input file {path} was changed"
        for path in then.keys() & now.keys()
        if then[path] != now[path]
    ]
    return lines


def _changed_options(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [f"--{change}" for change in outputs.changes(before, now)]


def content_options(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options that change the content of records."""
    return {k: v for k, v in values.items() if k not in _NOT_CONTENT}


def refuse_other_options(
    paths: Sequence[str],
    settings: writer_options.CreatePretrainingDataOptions,
    vocab_sha256: str,
) -> None:
    """Refuse to replace finished records of other options (no `overwrite`)."""
    for first, described in output_files.description_paths(paths).items():
        is_own = manifests.find(first) is not None
        outputs.check(settings, "output_file", described, is_own=is_own)
    current = content_options(options.to_dict(settings))
    for path in paths:
        if not files.exists(path):
            continue
        folder = os.path.dirname(path)
        paths_in_folder = [p for p in paths if os.path.dirname(p) == folder]
        manifest = manifests.find(path)
        if manifest is None:
            changes = ["it has no manifest with the options it was made with"]
        else:
            before = content_options(dict(manifest.options))
            changes = _changed_options(before, current)
            if manifest.vocab_sha256 != vocab_sha256:
                changes.append("the vocabulary file has other content")
            if manifest.shards != tuple(map(os.path.basename, paths_in_folder)):
                changes.append(f"--output_file named {list(manifest.shards)}")
        outputs.require_same(
            f"`output_file={path}` exists",
            changes,
            "Only records made with the same options are replaced. Choose "
            "another `output_file`, or add `overwrite` to replace it.",
        )
