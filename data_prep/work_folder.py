"""The folder in which the writer keeps what it has finished so far."""

import json
import os
import shutil
from collections.abc import Mapping
from typing import Any

from absl import logging

from albert_tf import errors, files

_IDENTITY = "job.json"


def holds(path: str, identity: Mapping[str, Any]) -> bool:
    """Tell whether a folder holds unfinished work of a job."""
    marker = os.path.join(path, _IDENTITY)
    if not files.exists(marker):
        return False
    return files.read_bytes(marker).decode("utf-8") == _text(identity)


def _text(identity: Mapping[str, Any]) -> str:
    return json.dumps(identity, indent=2, sort_keys=True) + "\n"


class WorkFolder:
    """Finished work of one job; a later start of the same job finds it.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: str, identity: Mapping[str, Any]) -> None:
        """Open the folder; what another job left in it is removed.

        Args:
            path: The folder; made if it is missing.
            identity: What the work follows from, as JSON values.

        Raises:
            errors.UserError: The folder cannot be made.
        """
        self.path = path
        if holds(path, identity):
            logging.info("Going on with the work in %s", path)
            return
        if files.exists(path):
            logging.info(
                "The work in %s is that of other options or another input; it "
                "is done anew.",
                path,
            )
        shutil.rmtree(path, ignore_errors=True)
        try:
            os.makedirs(path)
        except OSError as error:
            raise errors.UserError(
                f"--output_file: the work folder {path} cannot be made: "
                f"{error.strerror}. It must be in a place with free space that "
                "you may write to. Choose another one."
            ) from None
        files.write_text(os.path.join(path, _IDENTITY), _text(identity))

    def block(self, index: int) -> str:
        """Return the path of a block of tokens."""
        return os.path.join(self.path, f"block-{index:06d}.npy")

    def unit(self, number: int) -> str:
        """Return the prefix of the files of a unit of instances."""
        return os.path.join(self.path, f"unit-{number:06d}")

    def read(self, name: str) -> dict[str, Any] | None:
        """Return what `write` kept under a name, or None."""
        path = os.path.join(self.path, f"{name}.json")
        if not files.exists(path):
            return None
        values: dict[str, Any] = json.loads(files.read_bytes(path))
        return values

    def write(self, name: str, values: Mapping[str, Any]) -> None:
        """Keep values; they mark what they describe as finished."""
        path = os.path.join(self.path, f"{name}.json")
        files.write_text(path, json.dumps(values) + "\n")

    def remove(self) -> None:
        """Remove the folder, when all is done."""
        shutil.rmtree(self.path)
