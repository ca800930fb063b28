"""Deal records out to files that appear only when they are complete."""

import gzip
import hashlib
import os
import typing
from typing import IO

from albert_tf import errors
from data_prep import assemble, statistics, work_folder


def _is_packed(path: str) -> bool:
    return path.endswith(".gz")


def _packed(stream: IO[bytes]) -> IO[bytes]:
    # Without name and time, so that equal records give equal bytes.
    return typing.cast(IO[bytes], gzip.GzipFile("", "wb", 6, stream, mtime=0))


class ShardWriter:
    """Writes the records of all parts, in order, to equal shards.

    Attributes:
        paths: The shards.
        first_record: Where to go on: record behind the last finished shard.
    """

    def __init__(
        self,
        paths: list[str],
        num_records: int,
        work: work_folder.WorkFolder,
    ) -> None:
        """Find out which shards are finished.

        Args:
            paths: The shards; records are divided evenly among them.
            num_records: Of all shards together.
            work: Remembers finished shards.
        """
        self.paths = paths
        self._bounds = [
            num_records * shard // len(paths) for shard in range(len(paths) + 1)
        ]
        self._work = work
        self._shard = 0
        while self._shard < len(paths) and self._is_finished(self._shard):
            self._shard += 1
        self.first_record = self._bounds[self._shard]
        self._counts: statistics.Counts = {}
        self._stream: IO[bytes] | None = None

    def _name(self, shard: int) -> str:
        return f"shard-{shard:06d}"

    def _is_finished(self, shard: int) -> bool:
        facts = self._work.read(self._name(shard))
        path = self.paths[shard]
        return (
            facts is not None
            and os.path.exists(path)
            and os.path.getsize(path) == facts["bytes"]
        )

    def write(self, encoded: assemble.Encoded) -> None:
        """Append the records of a part that are not written yet."""
        first = encoded.part.first_record
        end = first + encoded.part.num_records
        while self._shard < len(self.paths):
            begin = max(first, self._bounds[self._shard])
            stop = min(end, self._bounds[self._shard + 1])
            if begin < stop:
                places = [0, *encoded.ends.tolist()]
                self._open().write(
                    encoded.framed[places[begin - first] : places[stop - first]]
                )
            if end < self._bounds[self._shard + 1]:
                break
            # The part belongs to the shard in which it ends.
            last = end == self._bounds[self._shard + 1]
            if last:
                self._counts = statistics.add(self._counts, encoded.counts)
            self._finish()
            if last:
                return
        self._counts = statistics.add(self._counts, encoded.counts)

    def _open(self) -> IO[bytes]:
        if self._stream is None:
            path = self.paths[self._shard]
            try:
                self._file = open(f"{path}.partial", "wb")
            except OSError as error:
                raise errors.UserError(
                    f"--output_file={path} cannot be written: {error}. It must "
                    "be in a place with free space that you may write to. "
                    "Choose another one."
                ) from None
            self._stream = (
                _packed(self._file) if _is_packed(path) else self._file
            )
        return self._stream

    def _finish(self) -> None:
        """Complete the current shard, and begin the next one."""
        path = self.paths[self._shard]
        stream = self._open()
        if stream is not self._file:
            stream.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        with open(f"{path}.partial", "rb") as written:
            digest = hashlib.file_digest(written, "sha256").hexdigest()
        facts = {
            "bytes": os.path.getsize(f"{path}.partial"),
            "sha256": digest,
            "counts": statistics.to_json(self._counts),
        }
        os.replace(f"{path}.partial", path)
        self._stream, self._counts = None, {}
        self._work.write(self._name(self._shard), facts)
        self._shard += 1

    def close(self) -> None:
        """Remove what was begun and not finished."""
        if self._stream is not None:
            self._file.close()
            os.remove(self._file.name)

    def totals(self) -> tuple[statistics.Counts, list[str]]:
        """Return the counts of all finished shards, and their SHA-256."""
        counts: statistics.Counts = {}
        digests = []
        for shard in range(len(self.paths)):
            facts = self._work.read(self._name(shard))
            assert facts is not None
            counts = statistics.add(
                counts, statistics.from_json(facts["counts"])
            )
            digests.append(facts["sha256"])
        return counts, digests
