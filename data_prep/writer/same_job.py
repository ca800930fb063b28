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
    """Return what unfinished work depends on, as JSON values."""
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
    """Return the versions of the packages and data by which text is cut."""
    result = {"unicode": unicodedata.unidata_version}
    if settings.vocabulary.kind == "spm_model_file":
        result["sentencepiece"] = sentencepiece.__version__
    if settings.text.split_sentences:
        result["sentencex"] = metadata.version("sentencex")
    return result | word_starts.versions(settings.word_segmenter)


def changes(before: dict[str, Any], job: dict[str, Any]) -> list[str]:
    """Explain why two jobs of `describe` have different instances."""
    changed = _changed_options(before["options"], job["options"])
    if before.get("format") != job["format"]:
        changed.append("it was started by another version of this program")
    if before["vocabulary"] != job["vocabulary"]:
        changed.append("the vocabulary file had other content")
    # Earlier formats have no versions.
    versions_before = {**job["versions"], **before.get("versions", {})}
    changed += [
        f"the version of {change}"
        for change in outputs.changes(versions_before, job["versions"])
    ]
    then, now = before["inputs"], job["inputs"]
    if then.keys() != now.keys():
        count = "1 file" if len(then) == 1 else f"{len(then):,} files"
        lines = [f"{path} is new" for path in now if path not in then]
        lines += [f"{path} is missing now" for path in then if path not in now]
        changed.append(
            f"--input_file gave {count}, now {len(now):,}; {lines[0]}"
        )
    changed += [
        f"the input file {path} was changed"
        for path in then.keys() & now.keys()
        if then[path] != now[path]
    ]
    return changed


def _changed_options(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [f"--{change}" for change in outputs.changes(before, now)]


def content_options(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out the options that do not change the content."""
    return {k: v for k, v in values.items() if k not in _NOT_CONTENT}


def refuse_other_options(
    paths: Sequence[str],
    settings: writer_options.CreatePretrainingDataOptions,
    vocab_sha256: str,
) -> None:
    """Protect finished records from a run with other options."""
    for first, described in output_files.beside(paths).items():
        is_own = manifests.find(first) is not None
        outputs.check(settings, "output_file", described, is_own=is_own)
    current = content_options(options.to_dict(settings))
    for path in paths:
        if not files.exists(path):
            continue
        folder = os.path.dirname(path)
        beside = [p for p in paths if os.path.dirname(p) == folder]
        manifest = manifests.find(path)
        if manifest is None:
            changed = ["it has no manifest with the options it was made with"]
        else:
            before = content_options(dict(manifest.options))
            changed = _changed_options(before, current)
            if manifest.vocab_sha256 != vocab_sha256:
                changed.append("the vocabulary file has other content")
            if manifest.shards != tuple(map(os.path.basename, beside)):
                changed.append(f"--output_file named {list(manifest.shards)}")
        outputs.require_same(
            f"`output_file={path}` exists",
            changed,
            "Only records made with the same options are replaced. Choose "
            "another `output_file`, or add `overwrite` to replace it.",
        )
