"""The folder of a training, as that of albert_tf.run_pretraining.

variables.npz       all variables
metrics.jsonl       every number that was printed, and facts on the run
run_options.json    options of the export and of this program
albert_config.json  architecture
run.lock            held while a training writes to the folder

`python -m albert_tf.write_run_card` makes the card of the run from the
three files after the first.
"""

import argparse
import fcntl
import json
import math
import os
import pathlib
import platform
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import batches
import jax
import numpy as np
from program import Arrays, Exported

VARIABLES_NAME = "variables.npz"
LOG_NAME = "metrics.jsonl"
OPTIONS_NAME = "run_options.json"
CONFIG_NAME = "albert_config.json"
LOCK_NAME = "run.lock"
PROGRAM_NAME = "run_train_step"
# Options of an export that may change while a training goes on.
_FREE = {
    *("output_dir", "overwrite", "to_checkpoint", "loop_layers", "recompute"),
    *("batches_from", "num_batches", "eval_batches_from", "num_eval_batches"),
    *("init_checkpoint", "init_schedule", "word_embeddings_file"),
}


class RunFolder:
    """Where a training writes to; without a folder it prints only."""

    def __init__(self, folder: str | None):
        """Make or open the folder, and read the log of an earlier start.

        Args:
            folder: Path; None for none.

        Raises:
            SystemExit: It cannot be used, or another process uses it.
        """
        self._folder = pathlib.Path(folder) if folder else None
        self._lines: list[dict[str, Any]] = []
        if self._folder:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                # Held until the process ends.
                self._lock = open(self._folder / LOCK_NAME, "w")
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SystemExit(
                    f"--output_dir={folder} is in use by another training. "
                    "Name another folder, or wait."
                ) from None
            except OSError as error:
                raise SystemExit(
                    f"--output_dir={folder} cannot be used: {error.strerror}. "
                    "Name a folder that you may write to."
                ) from None
            self._lines = read_log(self._folder / LOG_NAME)

    def check_same(
        self, exported: Exported, settings: argparse.Namespace
    ) -> None:
        """Refuse to continue a training that was begun with another program.

        Raises:
            SystemExit: It was, or with other variables, or by another command.
        """
        if not self._folder:
            return
        where = f"--output_dir={self._folder}"
        options = self._folder / OPTIONS_NAME
        if not self.variables:
            if options.exists() or (self._folder / LOG_NAME).exists():
                self._check_own(where, options)
            return
        try:
            begun = json.loads(options.read_text())
            config = json.loads((self._folder / CONFIG_NAME).read_text())
            earlier = dict(begun["options"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SystemExit(
                f"{where} holds {VARIABLES_NAME}, but is not a whole folder "
                f"of a training: {error!r}. Name another folder; begin with "
                f"--variables={self.variables} to keep what was learned."
            ) from None
        now = dict(exported.description["options"])
        pairs = [("the architecture", config, exported.description["config"])]
        pairs += [
            (name, earlier[name], now[name])
            # An earlier version may not have had the option.
            for name in sorted(now.keys() & earlier.keys() - _FREE)
        ]
        if settings.variables:
            pairs.append(
                ("variables", earlier.get("variables"), settings.variables)
            )
        for name, old, new in pairs:
            if old != new:
                raise SystemExit(
                    f"{where} was begun with another value of {name}: "
                    f"{old!r}, now {new!r}. Name another folder, or use what "
                    "it was begun with."
                )

    def check_space(self, variables: Arrays) -> None:
        """Refuse a disk that has no room for the variables.

        An old file stays until the new one is complete, so its space does not
        count.

        Raises:
            SystemExit: There is no room.
        """
        if not self._folder:
            return
        free = shutil.disk_usage(self._folder).free
        need = sum(array.nbytes for array in variables.values())
        if free < need:
            raise SystemExit(
                f"--output_dir={self._folder} has {free / 1e6:,.1f} MB free, "
                f"but writing {VARIABLES_NAME} needs {need / 1e6:,.1f} MB. "
                "Make room, or name a folder on another disk."
            )

    @property
    def variables(self) -> str | None:
        """Path of the variables of an earlier start, if there was one."""
        path = self._folder and self._folder / VARIABLES_NAME
        return str(path) if path and path.exists() else None

    @property
    def has_ended(self) -> bool:
        """Whether an earlier start has made its last update."""
        return bool(self._lines) and self._lines[-1]["split"] == "end"

    def _check_own(self, where: str, options: pathlib.Path) -> None:
        """Refuse the folder of a training by another program.

        Raises:
            SystemExit: It is one.
        """
        try:
            program = json.loads(options.read_text())["program"]
        except (OSError, ValueError, KeyError, TypeError):
            program = "an unknown program"
        if program != PROGRAM_NAME:
            raise SystemExit(
                f"{where} holds a training by {program}. Name another folder."
            )

    def has_evaluated(self, step: int) -> bool:
        """Tell whether the log has the evaluation of a step."""
        found = [
            line["step"] for line in self._lines if line["split"] == "eval"
        ]
        return step in found

    def start(
        self,
        step: int,
        exported: Exported,
        settings: argparse.Namespace,
        devices: Sequence[jax.Device],
    ) -> None:
        """Write what the run is, and drop lines of later steps from the log."""
        if not self._folder:
            return
        chosen = {n: v for n, v in vars(settings).items() if v is not None}
        content = {
            "program": PROGRAM_NAME,
            "options": {**exported.description["options"], **chosen},
        }
        config = exported.description["config"]
        self._write_text(CONFIG_NAME, json.dumps(config, indent=2))
        self._write_text(OPTIONS_NAME, json.dumps(content, indent=2))
        kept = [
            line
            for line in self._lines
            if line["step"] <= step and line["split"] != "end"
        ]
        kept.append(facts(step, exported.description, settings, devices))
        self._lines = kept
        text = "".join(json.dumps(line) + "\n" for line in kept)
        self._write_text(LOG_NAME, text)

    def write(self, split: str, step: int, numbers: dict[str, float]) -> None:
        """Print numbers of `train` or `eval`, and add them to the log."""
        finite = {
            name: value if math.isfinite(value) else None
            for name, value in numbers.items()
        }
        print(json.dumps({"split": split, "step": step, **finite}), flush=True)
        line = {"split": split, "step": step, "time": time.time(), **finite}
        self._append(line)

    def save(self, variables: Arrays) -> None:
        """Write the variables."""
        if self._folder:
            batches.save_npz(str(self._folder / VARIABLES_NAME), variables)

    def end(self, step: int) -> None:
        """Note that the training has come to its end."""
        self._append({"split": "end", "step": step})

    def _append(self, line: dict[str, Any]) -> None:
        self._lines.append(line)
        if self._folder:
            path = self._folder / LOG_NAME
            with batches.naming_errors(str(path)), open(path, "a") as stream:
                stream.write(json.dumps(line) + "\n")

    def _write_text(self, name: str, text: str) -> None:
        assert self._folder
        with batches.replace_file(str(self._folder / name)) as stream:
            stream.write(text.encode())


def read_log(path: pathlib.Path) -> list[dict[str, Any]]:
    """Return the lines of a log, without damaged ones."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text("utf-8", "replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and line.keys() >= {"split", "step"}:
            lines.append(line)
    return lines


def facts(
    step: int,
    description: Mapping[str, Any],
    settings: argparse.Namespace,
    devices: Sequence[jax.Device],
) -> dict[str, Any]:
    """Return what the card of a run says on data, model and machine."""
    # A weight is what has moments.
    names = {entry["name"] for entry in description["arguments"]}
    sizes = [
        math.prod(entry["shape"])
        for entry in description["arguments"]
        if f"adam_m/{entry['name']}" in names
    ]
    packages = {"jax": jax.__version__, "numpy": np.__version__}
    return {
        "split": "facts",
        "step": step,
        "command": " ".join(sys.argv),
        "parameters": sum(sizes),
        "data": f"batches: {settings.batches or 'one random batch'}; "
        f"evaluation: {settings.eval_batches or 'none'}",
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "devices": ", ".join(str(device) for device in devices),
        "versions": ", ".join(f"{k} {v}" for k, v in packages.items()),
        "examples_per_step": description["sequences"],
        "tokens_per_step": description["tokens"],
    }
