"""The manifest of pretraining records: what they were made from, and how.

The writer puts this JSON file beside the record files; training compares it
with its own options (`record_check`).
"""

import dataclasses
import hashlib
import itertools
import operator
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import google_crc32c

from albert_tf.common import errors, files, strict_json

MANIFEST_ENDING = ".manifest.json"
# Beside word embeddings: the vocabulary that the records had, if it is known.
EMBEDDINGS_ENDING = ".json"
FORMAT_VERSION = 1
_CHECKSUM = "crc32c"  # A key of the file that is no field.


@dataclasses.dataclass(frozen=True)
class Manifest:
    """How a set of pretraining record files was made.

    Attributes:
        shards: Base names of the record files, in writing order.
        max_predictions_per_seq: Length of `masked_lm_positions`: twice the
            writer's option with `--do_permutation`.
        vocab_size: Pieces of the vocabulary, special ones included.
        options: All options of the program that wrote the records.
        kind: What a record is: one of `layouts.KINDS`.
        has_masks: Whether pieces are masked; without it, training masks them.
        inputs: Path, bytes and SHA-256 of each text file.
        corpus: Counts of documents, sentences and the like in the text.
        summary: Rates and distributions of the records.
        versions: Of the programs that decide about the content.
    """

    shards: tuple[str, ...]
    shard_bytes: tuple[int, ...]
    num_examples: int
    max_seq_length: int
    max_predictions_per_seq: int
    vocab_size: int
    vocab_sha256: str
    random_seed: int
    options: Mapping[str, Any]
    versions: Mapping[str, str]
    shard_sha256: tuple[str, ...] = ()
    kind: str = "instances"
    has_masks: bool = True
    word_start_rule: str = ""
    inputs: Sequence[Mapping[str, Any]] = ()
    corpus: Mapping[str, int] = dataclasses.field(default_factory=dict)
    summary: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    @property
    def sentence_objective(self) -> str:
        if written := self.options.get("sentence_objective"):
            return str(written)
        return "nsp" if self.options.get("random_next_sentence") else "sop"


def write(paths: Sequence[str], manifest: Manifest) -> str:
    """Write the manifest of record files beside the first; return its path.

    Its `crc32c` is that of the other keys as one line of JSON, sorted.
    """
    path = f"{paths[0]}{MANIFEST_ENDING}"
    plain = strict_json.dumps(dataclasses.asdict(manifest))
    content = strict_json.loads(plain)
    content[_CHECKSUM] = _checksum(content)
    text = strict_json.dumps(content, indent=2, sort_keys=True)
    files.write_text(path, text + "\n")
    return path


def find(record_path: str) -> Manifest | None:
    """Return the manifest that lists a record file, or None."""
    return next((manifest for _, manifest in _find_all(record_path)), None)


def check_sizes(paths: Iterable[str], option: str = "input_file") -> None:
    """Refuse files of other bytes than their manifest says."""
    for path in paths:
        if not (manifest := find(path)):
            continue
        name, size = os.path.basename(path), files.size(path)
        written = manifest.shard_bytes[manifest.shards.index(name)]
        if size != written:
            raise errors.UserError(
                f"`{option}={path}` has {size:,} bytes; its manifest says "
                f"{written:,}. It is cut short or was replaced. Copy it again, "
                "or write the records again."
            )


def _find_all(record_path: str) -> Iterator[tuple[str, Manifest]]:
    """Yield path and content of the manifests that list a record file."""
    folder, name = os.path.split(record_path)
    for path in files.find_by_ending(folder, MANIFEST_ENDING):
        manifest = _read(path)
        if manifest and name in manifest.shards:
            yield path, manifest


def vocab_hashes(paths: Iterable[str]) -> dict[str, set[str]]:
    """Return {record file: vocabulary}, the first file of each vocabulary.

    For `check_vocabularies`.
    """
    first_paths: dict[str, str] = {}
    for path in paths:
        if manifest := find(path):
            first_paths.setdefault(manifest.vocab_sha256, path)
    return {
        f"the record file {path}": {sha256}
        for sha256, path in first_paths.items()
    }


def write_vocabulary_of_embeddings(path: str, paths: Iterable[str]) -> None:
    """Write beside word embeddings which vocabulary their records have."""
    hashes = itertools.chain.from_iterable(vocab_hashes(paths).values())
    content = {"vocab_sha256": next(hashes, None)}
    text = strict_json.dumps(content) + "\n"
    files.write_text(path + EMBEDDINGS_ENDING, text)


def embeddings_vocab_hashes(path: str | None) -> dict[str, set[str]]:
    """Return the vocabulary of word embeddings, for `check_vocabularies`."""
    beside = f"{path}{EMBEDDINGS_ENDING}"
    if not path or not files.exists(beside):
        return {}
    advice = "Make the embeddings again, or remove this file"
    sha256 = strict_json.read_object(beside, advice).get("vocab_sha256")
    name = f"`word_embeddings_file={path}`"
    return {name: {sha256}} if isinstance(sha256, str) else {}


def check_vocabularies(hashes: Mapping[str, Collection[str]]) -> None:
    """Refuse records, models and files that belong to different vocabularies.

    `hashes` has, by their names in messages, the SHA-256 of the vocabularies
    that each may have; empty if they are not known.
    """
    for first, second in itertools.combinations(hashes, 2):
        one, two = set(hashes[first]), set(hashes[second])
        if one and two and not one & two:
            message = (
                f"{first} has another vocabulary (SHA-256 {min(one)[:12]}) "
                f"than {second} (SHA-256 {min(two)[:12]}). Ids would mean "
                "other pieces. Use what belongs to one vocabulary, or make one "
                "of the two again."
            )
            raise errors.UserError(message[0].upper() + message[1:])


def fingerprint(paths: Sequence[str]) -> str:
    """Return a SHA-256 that differs for record files of other content.

    It is that of their sizes and of the digests in their manifests, in the
    order of the files; the names do not count. No record is read.
    """
    digest = hashlib.sha256()
    for path in paths:
        manifest = find(path)
        shard_digests: dict[str, str] = {}
        if manifest:
            hashes = manifest.shard_sha256
            shard_digests.update(zip(manifest.shards, hashes, strict=False))
        name, size = os.path.basename(path), files.size(path)
        digest.update(f"{size} {shard_digests.get(name)}\n".encode())
    return digest.hexdigest()


def remove(paths: Sequence[str]) -> None:
    """Remove all manifests that list one of these record files."""
    for path in paths:
        for manifest_path, _ in _find_all(path):
            files.remove(manifest_path)


def _checksum(content: Mapping[str, Any]) -> int:
    text = strict_json.dumps(content, sort_keys=True)
    return int(google_crc32c.value(text.encode()))


def _read(path: str) -> Manifest | None:
    """Return a manifest, or None if the file is another program's."""
    version = None
    try:
        values = strict_json.loads(files.read_bytes(path))
        our_keys = {"format_version", "shards", _CHECKSUM}
        if isinstance(values, dict) and values and not our_keys & set(values):
            return None
        version = values["format_version"]
        if version != FORMAT_VERSION:
            raise errors.UserError(
                f"The manifest {path} has format version {version}; this "
                f"program reads version {FORMAT_VERSION}. Use the program "
                "that wrote the records, or write them again."
            )
        # Manifests of earlier versions have no checksum.
        checksum = values.pop(_CHECKSUM, None)
        if checksum is not None and checksum != _checksum(values):
            raise ValueError("it was changed: its checksum does not fit")
        values["shards"] = tuple(values["shards"])
        for name in ("shard_bytes", "shard_sha256", "inputs"):
            values[name] = tuple(values.get(name, ()))
        if not isinstance(values["vocab_sha256"], str):
            raise TypeError("vocab_sha256 is no text")
        for _, size in zip(
            values["shards"], values["shard_bytes"], strict=True
        ):
            operator.index(size)
        return Manifest(**values)
    except errors.UserError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        has_records = files.exists(path.removesuffix(MANIFEST_ENDING))
        if version is None and not has_records:
            return None
        raise errors.UserError(
            f"The manifest {path} cannot be read ({error}). It must be the "
            "file that data_prep.create_pretraining_data wrote. Write the "
            "records again, or remove the file to use them unchecked."
        ) from error
