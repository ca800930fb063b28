"""Other faults: full and read-only disks, damaged and changed files.

Each function applies a fault to one run of a job. It returns a short
description of the outcome and whether it is correct: the run reports the fault
without a traceback, and after it is fixed the same command gives the result of
the undisturbed run.
"""

import dataclasses
import os
import pathlib
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from lab.soak import bench, compare, jobs

# Exit statuses of mistakes and of failing files; 0 is none, 1 with a traceback
# in the log is a crash.
_NAMED = (1, 2)
_ZEROED_BYTES = 2000
# What a killed run may leave beside a whole result; the next start takes it up
# or away.
_UNFINISHED = (".partial", ".lock", ".old")
Outcome = tuple[str, bool]
# None: the run ended before the fault.
Maybe = Outcome | None


@dataclasses.dataclass
class Scene:
    """One run of a job, for a fault."""

    machine: bench.Bench
    job: jobs.Job
    folder: pathlib.Path
    rng: random.Random
    content: dict[str, str]
    seconds: float
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def log(self) -> str:
        """The output of all starts."""
        return (self.folder / "log").read_text(errors="replace")

    def run(self) -> int:
        """Run the command to its end; return its status."""
        started = self.machine.start(
            self.job.command, self.folder, self.options
        )
        return max((status or 0 for status in started.wait()), key=abs)

    def kill_when(self, is_time: Callable[[], bool]) -> bool:
        """Start, and kill at the right time; return whether it was running."""
        process = self.machine.start(
            self.job.command, self.folder, self.options
        )
        process.wait(is_time=is_time)
        return -9 in process.kill("group")

    def kill_somewhere(self) -> bool:
        """Kill at a random moment; return whether it was running."""
        share = self.rng.uniform(0.05, 0.95)
        end = time.monotonic() + share * self.seconds
        return self.kill_when(lambda: time.monotonic() >= end)

    def ends_equal(self, success: str) -> Outcome:
        """Run to the end, and compare with the undisturbed run."""
        status = self.run()
        if status:
            return f"status {status}: {self.last_words()}", False
        found = self.machine.content(self.job, self.folder)
        unequal = compare.differences(self.content, found)
        return (
            (f"differs in {unequal[:3]}", False) if unequal else (success, True)
        )

    def last_words(self) -> str:
        """Return the last line that was printed, as text for a table."""
        lines = [line for line in self.log.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("error:")]
        return (errors or lines or ["nothing"])[-1][:200].replace("|", "/")


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault and the jobs that it applies to.

    Attributes:
        happen: Lets it happen; None if the run was over before it could.
    """

    name: str
    jobs: tuple[str, ...]
    happen: Callable[[Scene], Maybe]


# Disks.


def fill_disk(scene: Scene) -> Outcome:
    """Run with a full disk, then with enough space."""
    whole = scene.folder.parent / "undisturbed" / "out"
    sizes = [p.stat().st_size for p in whole.rglob("*") if p.is_file()]
    # Less than a page would mean no limit.
    size = max(4096, int(scene.rng.uniform(0.0, 0.9) * sum(sizes)))
    return _on_disks(scene, f"size={size}", "size=1g")


def take_rights(scene: Scene) -> Outcome:
    """Run with a disk that cannot be written, then with one that can."""
    return _on_disks(scene, "ro", "rw")


def _on_disks(scene: Scene, first: str, then: str) -> Outcome:
    """Run on a disk that must make it fail, then on a better one.

    Args:
        first: Options of mounting it.
    """
    if os.getuid() != 0:
        return "not tried: needs root", True
    disk = scene.folder / "out"
    disk.mkdir()
    _mount(disk, first)
    try:
        status = scene.run()
        if status not in _NAMED or "Traceback" in scene.log:
            return f"status {status}: {scene.last_words()}", False
        _mount(disk, f"remount,{then}")
        return scene.ends_equal("named, then equal")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _mount(folder: pathlib.Path, options: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    subprocess.run(command, check=True)


# Damaged files.


def _damage(path: pathlib.Path, rng: random.Random) -> str:
    """Damage a file in one of three ways; return the way."""
    content = bytearray(path.read_bytes())
    how = rng.choice(("truncated", "zeroed", "bit flipped"))
    place = rng.randrange(max(1, len(content)))
    if how == "truncated":
        del content[place:]
    elif how == "zeroed":
        end = min(len(content), place + _ZEROED_BYTES)
        content[place:end] = bytes(end - place)
    elif content:
        content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return how


def damage_checkpoint(scene: Scene) -> Maybe:
    """Kill a run, and damage its newest checkpoint."""
    count = scene.rng.randint(2, 6)
    if not scene.kill_when(lambda: _newest(scene)[0] >= 2 * count):
        return None
    _, prefix = _newest(scene)
    ending = scene.rng.choice((".index", ".data-00000-of-00001"))
    how = _damage(pathlib.Path(prefix + ending), scene.rng)
    outcome, equal = scene.ends_equal("nothing was lost")
    if equal and "Trying the one before" in scene.log:
        outcome = "went on from the one before"
    return f"{ending[1:6].strip('.-')} {how}: {outcome}", equal


def _newest(scene: Scene) -> tuple[int, str]:
    """Return step and prefix of the newest checkpoint that is complete."""
    found = [
        (int(path.stem.rsplit("-", 1)[1]), str(path.with_suffix("")))
        for path in scene.folder.glob("out/model.ckpt-*[0-9].index")
    ]
    return max(found, default=(0, ""))


def damage_work(scene: Scene) -> Maybe:
    """Kill a writer, and damage a finished file."""
    if not scene.kill_somewhere():
        return None
    paths = [
        path
        for pattern in ("out/*.work/*", "out/*.tfrecord-*")
        for path in sorted(scene.folder.glob(pattern))
        if path.name != "lock" and path.stat().st_size
    ]
    if not paths:
        return None
    path = scene.rng.choice(paths)
    how = _damage(path, scene.rng)
    outcome, equal = scene.ends_equal("equal")
    kind = re.sub(r"-\d+(-of-\d+)?", "", path.name)
    return f"{kind} {how}: {outcome}", equal


# Files that change between a kill and the restart.


def _own_copy(scene: Scene, option: str, pattern: str) -> list[pathlib.Path]:
    """Copy inputs that will change; the job then reads the copies."""
    place = scene.folder / "own"
    place.mkdir()
    copies = []
    for path in sorted((scene.folder / "inputs").glob(pattern)):
        copy = place / path.name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, copy)
        copies.append(copy)
    value = scene.job.command.options[option]
    scene.options[option] = f"own/{os.path.basename(str(value))}"
    return copies


def _refused(scene: Scene) -> Outcome:
    """Restart after a change; the run must refuse it."""
    status = scene.run()
    if status in _NAMED and "Traceback" not in scene.log:
        return "refused", True
    return f"status {status}: {scene.last_words()}", False


def _kill_late(scene: Scene) -> bool:
    """Kill when the run has something to continue from."""
    return scene.kill_when(
        lambda: (
            any(scene.folder.glob(scene.job.begins))
            and any(scene.folder.glob("out/*.work/text.json"))
            or any(scene.folder.glob("out/checkpoint"))
        )
    )


def _changed(
    inputs: tuple[str, str],
    change: Callable[[Scene, Sequence[pathlib.Path]], None],
    restart: Callable[[Scene], Outcome],
) -> Callable[[Scene], Maybe]:
    """Return a fault that changes inputs between a kill and the restart.

    Args:
        inputs: Option and pattern of the files; the job gets copies of them.
    """

    def happen(scene: Scene) -> Maybe:
        copies = _own_copy(scene, *inputs)
        if not _kill_late(scene):
            return None
        change(scene, copies)
        return restart(scene)

    return happen


def _other_word(scene: Scene, copies: Sequence[pathlib.Path]) -> None:
    del scene
    for path in copies:
        path = path / "CoLA" / "train.tsv" if path.is_dir() else path
        path.write_bytes(path.read_bytes().replace(b"mill", b"mole"))


def _other_vocabulary(scene: Scene, copies: Sequence[pathlib.Path]) -> None:
    """Replace the vocabulary by another one of the same size."""
    # The vocabulary of init_checkpoint and records is not checked here.
    shutil.copy(scene.folder / "inputs" / "other.model", copies[0])


def _other_records(scene: Scene, copies: Sequence[pathlib.Path]) -> None:
    """Replace the records and their manifest by others."""
    for copy in copies:
        shutil.copy(scene.folder / "inputs" / "others" / copy.name, copy)


def _flip_bit(scene: Scene, copies: Sequence[pathlib.Path]) -> None:
    content = bytearray(copies[0].read_bytes())
    content[scene.rng.randrange(len(content))] ^= 1 << scene.rng.randrange(8)
    copies[0].write_bytes(content)


# Earlier results.


def replace_earlier(scene: Scene) -> Outcome:
    """Kill a run that replaces a result: the old or new one must remain."""
    if scene.run():
        return f"status: {scene.last_words()}", False
    scene.kill_somewhere()
    found = {
        name: value
        for name, value in scene.machine.content(
            scene.job, scene.folder
        ).items()
        if not any(ending in name for ending in _UNFINISHED)
    }
    unequal = compare.differences(scene.content, found)
    if unequal:
        return f"differs in {unequal[:3]}", False
    return scene.ends_equal("whole all along")


_TRAINING = ("trainer", "finetuning")
_RECORDS = ("input_file", "records/unmasked.tfrecord*")
FAULTS = (
    Fault(
        "full_disk",
        ("writer_shards", *_TRAINING, "export", "predict_saved_model"),
        fill_disk,
    ),
    Fault(
        "no_rights",
        ("writer_shards", *_TRAINING, "export", "predict_saved_model"),
        take_rights,
    ),
    Fault(
        "damaged_work",
        ("writer", "writer_shards"),
        damage_work,
    ),
    Fault(
        "damaged_checkpoint",
        _TRAINING,
        damage_checkpoint,
    ),
    Fault(
        "changed_text",
        ("writer", "writer_shards"),
        _changed(
            ("input_file", "data/corpus/train.txt"), _other_word, _refused
        ),
    ),
    Fault(
        "changed_vocabulary",
        ("writer_shards", *_TRAINING),
        _changed(("spm_model_file", "tiny.model"), _other_vocabulary, _refused),
    ),
    Fault(
        "changed_records",
        ("trainer",),
        _changed(_RECORDS, _other_records, _refused),
    ),
    Fault(
        "damaged_records",
        ("trainer",),
        _changed(_RECORDS, _flip_bit, _refused),
    ),
    Fault(
        "changed_examples",
        ("finetuning",),
        _changed(("data_dir", "data/glue"), _other_word, _refused),
    ),
    Fault(
        "replaced",
        ("export", "predict_saved_model"),
        replace_earlier,
    ),
)
