"""Write records to several files, each of which appears when complete."""

import contextlib
import gzip
import hashlib
import os
import typing
from collections.abc import Sequence
from typing import IO

from absl import logging

from albert_tf.common import errors, files
from data_prep.writer import assemble, checksums, statistics, work_folder


class _StopError(Exception):
    """Ends the writing of a shard that is not complete."""


class _OpenShard:
    """A shard that is being written, under a temporary name."""

    def __init__(self, path: str) -> None:
        self._stack = contextlib.ExitStack()
        try:
            self._stream = self._stack.enter_context(
                files.replace_atomically(path)
            )
        except OSError as error:
            raise errors.UserError(
                f"--output_file={path} cannot be written: {error}. Choose a "
                "writable place with free space."
            ) from None
        self._sha256 = hashlib.sha256()
        self._checksum = checksums.Checksum(0, 0)
        self._packer: gzip.GzipFile | None = None
        if path.endswith(".gz"):
            # Without name and time, so that equal records give equal bytes.
            stored = typing.cast(IO[bytes], self)
            self._packer = gzip.GzipFile("", "wb", 6, stored, mtime=0)

    def append(self, records: bytes) -> None:
        (self._packer or self).write(records)

    def write(self, content: bytes) -> None:
        """Write bytes as they are stored."""
        self._stream.write(content)
        self._sha256.update(content)
        self._checksum = self._checksum.extend(content)

    def flush(self) -> None:
        """Flush the file; gzip asks for it."""
        self._stream.flush()

    def complete(self) -> tuple[checksums.Checksum, str]:
        """Rename the file to its final name; return checksum and SHA-256."""
        if self._packer is not None:
            self._packer.close()
        self._stack.close()
        return self._checksum, self._sha256.hexdigest()

    def remove(self) -> None:
        """Remove the file, unless it is complete."""
        # The disk may be full when the file is closed.
        with contextlib.suppress(_StopError, OSError), self._stack:
            raise _StopError


class ShardWriter:
    """Writes the records of all parts, in order, to shards of equal size."""

    def __init__(
        self,
        paths: Sequence[str],
        num_records: int,
        work: work_folder.WorkFolder,
    ) -> None:
        # The targets of symbolic links, so that the links stay.
        self.paths = [os.path.realpath(path) for path in paths]
        self._bounds = assemble.divide_evenly(num_records, len(paths))
        self._work = work
        self._shard = 0
        while self._shard < len(paths) and self._read_record(self._shard):
            self._shard += 1
        # The first one after the finished shards.
        self.first_record = self._bounds[self._shard]
        self._counts: statistics.Counts = {}
        self._open: _OpenShard | None = None

    def _name(self, shard: int) -> str:
        return f"shard-{shard:06d}"

    def _read_record(self, shard: int) -> dict[str, typing.Any] | None:
        return self._work.read_finished(self._name(shard), [self.paths[shard]])

    def write(self, encoded: assemble.Encoded) -> None:
        """Append the records of a part, but those in finished shards."""
        first, count = encoded.part.first_record, encoded.part.num_records
        offsets = [0, *encoded.ends.tolist()]
        for shard, begin, end in assemble.divide(first, count, self._bounds):
            if shard < self._shard:
                continue  # Finished by an earlier start.
            path = self.paths[shard]
            with files.name_full_disk(path):
                self._open = self._open or _OpenShard(path)
                self._open.append(encoded.framed[offsets[begin] : offsets[end]])
            # The part is counted in the shard in which it ends.
            if end == count:
                self._counts = statistics.add(self._counts, encoded.counts)
            if first + end == self._bounds[shard + 1]:
                self._finish()

    def _finish(self) -> None:
        """Complete the current shard, and begin the next one."""
        assert self._open
        with files.name_full_disk(self.paths[self._shard]):
            written, sha256 = self._open.complete()
        record = {
            "sha256": sha256,
            "counts": statistics.to_json(self._counts),
            "files": [written],
        }
        self._work.write(self._name(self._shard), record)
        self._open, self._counts = None, {}
        self._shard += 1

    def close(self) -> None:
        """Remove an unfinished shard, and log which shards are missing."""
        if self._open is not None:
            self._open.remove()
        if self._shard < len(self.paths):
            logging.error(
                "%d of %d output files are finished; the first missing one is "
                "%s. Run the same command again to continue.",
                self._shard,
                len(self.paths),
                self.paths[self._shard],
            )

    def totals(self) -> tuple[statistics.Counts, list[str]]:
        """Return the counts of all finished shards, and their SHA-256."""
        counts: statistics.Counts = {}
        digests = []
        for shard in range(len(self.paths)):
            record = work_folder.whole(self._read_record(shard))
            counts = statistics.add(counts, record["counts"])
            digests.append(record["sha256"])
        return counts, digests
