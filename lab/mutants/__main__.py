r"""Mutation tests: make one change to a file and see if a test fails.

    make mutants FILES="albert_tf/data/masking.py data_prep/writer/assemble.py"
    make mutants ARGS="--sample=200 --seed=1"

The changes are those of cosmic-ray: numbers plus and minus one, operators and
comparisons exchanged, conditions negated, loop bodies skipped, decorators and
statements removed. Strings, `raise` statements and annotations are not changed;
messages have their own tests. Neither is `lru_cache`, which affects only speed.
A change that no test notices is a survivor.

Without files, the changes are drawn from all files of `CENTRAL`. To compare two
commits, run the same sample on both, in a worktree of the earlier one by
`/path/to/.venv/bin/python /path/to/lab/mutants --sample=200 --seed=1`.

Each file is changed in a copy of the project, .mutants/copy. The tests are the
files tests/FOLDER/test_FILE*.py: first the tests that reach the changed line,
fastest first, then the others except slow ones. The first failure ends the
trial. Every trial runs in a process forked from one that has imported
TensorFlow but not used it.

Results are lines of .mutants/results.jsonl: an interrupted run continues.
"""

import argparse
import collections
import contextlib
import dataclasses
import difflib
import functools
import gc
import hashlib
import importlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import coverage
import pytest
from cosmic_ray import mutating, plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.operators import operator as operators
from parso.python import tree

ROOT = pathlib.Path.cwd()
STORE = ROOT / ".mutants"
COPY = STORE / "copy"

CENTRAL = (
    "albert_tf/data",
    "albert_tf/finetuning",
    "albert_tf/model",
    "albert_tf/text",
    "albert_tf/training",
    "data_prep/writer",
)

# One or two of cosmic-ray's exchanges of each operator, not all of them.
EXCHANGES = {
    "Binary": "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul "
    "LShift_RShift RShift_LShift BitOr_BitAnd BitAnd_BitOr BitXor_BitAnd",
    "Comparison": "Eq_NotEq NotEq_Eq Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE "
    "GtE_Gt GtE_Lt Is_IsNot IsNot_Is",
    "Unary": "USub_UAdd Delete_USub Delete_Not Delete_Invert",
}
OTHERS = (
    "AddNot",
    "NumberReplacer",
    "RemoveDecorator",
    "ZeroIterationForLoop",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
)

# Imported first in a process of tests, if at all.
HEAVY = ("numpy", "tensorflow", "tf_keras", "tensorflow_text")
# Limit of a process of tests: their usual CPU time times a factor, plus seconds
# for shared fixtures that other tests have built.
TIME_FACTOR, TIME_MORE = 2, 10
# A test is slow from this many seconds.
SLOW = 3
# Ratio of wall time to CPU time, to stop tests that wait forever.
WAITING = 6
MEMORY = 8 << 30
TIME_IS_UP = signal.SIGXCPU, signal.SIGKILL


class DeleteStatement(operators.Operator):
    """Remove a call, or a reassignment."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the positions of statements that can be removed."""
        if isinstance(node, tree.ExprStmt) and self._changes(node):
            yield node.start_pos, node.end_pos
        is_call = node.type == "atom_expr" and node.children[-1].type == (
            "trailer"
        )
        if is_call and node.parent.type == "simple_stmt":
            yield node.start_pos, node.end_pos

    @staticmethod
    def _changes(node: tree.ExprStmt) -> bool:
        defined = node.get_defined_names(True)
        names = {n.value for n in defined if n.type == "name"}
        right = {n.value for n in ast_nodes(node.get_rhs()) if n.type == "name"}
        augmented = node.children[1].type == "operator" and (
            node.children[1].value != "="
        )
        return augmented or bool(names & right)

    def mutate(self, node: Any, index: int) -> Any:
        """Replace it by `pass`."""
        prefix = node.get_first_leaf().prefix
        return tree.Keyword("pass", node.start_pos, prefix)

    @classmethod
    def examples(cls) -> Iterable[operators.Example]:
        """cosmic-ray's own tests would run them."""
        return ()


@functools.cache
def make_operators() -> dict[str, operators.Operator]:
    """Return all operators by name."""
    names = [
        f"core/Replace{kind}Operator_{exchange}"
        for kind, exchanges in EXCHANGES.items()
        for exchange in exchanges.split()
    ]
    names += [f"core/{name}" for name in OTHERS]
    found = {name: plugins.get_operator(name)() for name in names}
    return {**found, "own/DeleteStatement": DeleteStatement()}


def is_passed_over(node: Any) -> bool:
    """Tell whether a node is (in) an annotation, a `raise` or a cache."""
    while node.parent is not None:
        parent = node.parent
        if parent.type == "raise_stmt":
            return True
        if node.type == "decorator" and "cache" in node.get_code():
            return True
        if parent.type in ("param", "funcdef") and parent.annotation is node:
            return True
        if parent.type == "annassign" and parent.children[1] is node:
            return True
        node = parent
    return False


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of a file."""

    path: str
    operator: str
    occurrence: int
    lines: tuple[int, int]

    def key(self) -> str:
        """Name it, and the version of its file."""
        digest = hashlib.sha256(self.source().encode()).hexdigest()
        return f"{self.path} {digest[:16]} {self.operator} {self.occurrence}"

    def source(self) -> str:
        """Return the file, unchanged."""
        return (ROOT / self.path).read_text()

    def apply(self) -> str:
        """Return the file, changed."""
        operator = make_operators()[self.operator]
        changed = mutating.mutate_code(self.source(), operator, self.occurrence)
        assert changed is not None, f"There is no {self}."
        return changed

    def difference(self) -> str:
        """Return the change as a patch."""
        lines = difflib.unified_diff(
            self.source().splitlines(),
            self.apply().splitlines(),
            *(self.path, self.path, "", "", 1, ""),
        )
        return "\n".join(lines)


def find_mutants(path: str) -> Iterator[Mutant]:
    """Yield all possible changes of a file."""
    nodes = list(ast_nodes(get_ast((ROOT / path).read_text())))
    for name, operator in make_operators().items():
        places = (
            (node, *place)
            for node in nodes
            for place in operator.mutation_positions(node)
        )
        for number, (node, start, end) in enumerate(places):
            if not is_passed_over(node):
                yield Mutant(path, name, number, (start[0], end[0]))


def draw(files: Sequence[str], sample: int | None, seed: int) -> list[Mutant]:
    """Draw changes, in the order of the files; None means all.

    A smaller sample is a part of a larger one.
    """
    mutants = [mutant for path in files for mutant in find_mutants(path)]
    random.Random(seed).shuffle(mutants)
    return sorted(mutants[:sample], key=lambda mutant: files.index(mutant.path))


# Processes.


def run_child(
    work: Callable[[], int], log: pathlib.Path, seconds: int
) -> int | None:
    """Run a function in a forked process, in the copy of the project.

    Args:
        seconds: Limit of its CPU time.

    Returns:
        The status; None if the time was up.
    """
    child = os.fork()
    if not child:
        status = 70
        try:
            _begin_child(log, seconds)
            status = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    timer = threading.Timer(seconds * WAITING, os.killpg, (child, 9))
    timer.start()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    timer.cancel()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return None if -status in TIME_IS_UP else status


def _begin_child(log: pathlib.Path, seconds: int) -> None:
    os.setsid()
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(stream, number)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    os.chdir(COPY)
    sys.path[0] = str(COPY)
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}


def run_pytest(arguments: Sequence[str], *plugins_: object) -> int:
    """Run tests in this process; return pytest's status."""
    plain = ["-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain"]
    shown = ["-q", "-x", "--tb=line"]
    return int(pytest.main([*plain, *shown, *arguments], list(plugins_)))


class Watch:
    """A pytest plugin that records coverage and time of each test."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._coverage = coverage.Coverage(
            data_file=None, include=[str(COPY / path)], config_file=False
        )
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Record one test."""
        self._coverage.switch_context(item.nodeid)
        begin = time.process_time()
        result = yield
        self._seconds[item.nodeid] = time.process_time() - begin
        return result

    def run(self, tests: Sequence[str], result: pathlib.Path) -> int:
        """Run tests, and write the recorded data."""
        self._coverage.start()
        status = run_pytest(tests, self)
        self._coverage.stop()
        lines = self._coverage.get_data().contexts_by_lineno(
            str(COPY / self._path)
        )
        heavy = [name for name in HEAVY if name in sys.modules]
        notes = {"seconds": self._seconds, "lines": lines, "heavy": heavy}
        result.write_text(json.dumps(notes))
        return status


# A run.


@dataclasses.dataclass(frozen=True)
class Notes:
    """The tests of a file, without changes."""

    seconds: dict[str, float]
    lines: dict[str, list[str]]
    heavy: list[str]

    def rounds(self, first: int, last: int) -> list[list[str]]:
        """Return the tests to run, in order, for a change of some lines."""
        reached = {
            test
            for line in range(first, last + 1)
            for test in self.lines.get(str(line), [])
        }
        everything = sorted(self.seconds, key=self.seconds.__getitem__)
        near = [test for test in everything if test in reached]
        # Only the first test covers what is shared between tests (a module
        # fixture, a compiled function).
        rest = [
            test
            for test in everything
            if test not in reached and self.seconds[test] < SLOW
        ]
        return [tests for tests in (near, rest) if tests]

    def limit(self, tests: Sequence[str]) -> int:
        """Return the CPU time for some tests, in whole seconds."""
        usual = sum(self.seconds[test] for test in tests)
        return int(TIME_FACTOR * usual) + TIME_MORE


def tests_of(path: str) -> list[str]:
    """Return the files of tests for a file."""
    folder, name = os.path.split(path)
    stem = name.removesuffix(".py")
    found = (ROOT / "tests" / folder).glob(f"test_{stem}*.py")
    return sorted(str(test.relative_to(ROOT)) for test in found)


def make_copy() -> None:
    """Copy the project to the folder for changes."""
    shutil.rmtree(COPY, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)
    # The tests expect it beside the project.
    shared = STORE / "shared"
    if (ROOT.parent / "shared").is_dir() and not shared.exists():
        shared.symlink_to(ROOT.parent / "shared")


def observe(path: str) -> Notes:
    """Run the tests of an unchanged file."""
    result, log = STORE / "notes.json", STORE / "tests.log"
    status = run_child(
        lambda: Watch(path).run(tests_of(path), result), log, 3600
    )
    if status != 0:
        sys.exit(f"The tests of {path} fail as they are; see {log}.")
    return Notes(**json.loads(result.read_text()))


def try_mutant(mutant: Mutant, notes: Notes) -> str:
    """Run the tests on a changed file; return what noticed it, or ""."""
    target, log = COPY / mutant.path, STORE / "mutant.log"
    try:
        target.write_text(mutant.apply())
        for tests in notes.rounds(*mutant.lines):
            status = run_child(
                functools.partial(run_pytest, tests),
                log,
                notes.limit(tests),
            )
            if status != 0:
                return _killer(status, log)
    finally:
        target.write_text(mutant.source())
    return ""


def _killer(status: int | None, log: pathlib.Path) -> str:
    if status is None:
        return "time"
    lines = log.read_text(errors="replace").splitlines()
    marks = ("FAILED ", "ERROR ")
    return next((x for x in lines if x.startswith(marks)), f"status {status}")


def run(chosen: Sequence[Mutant], *, survivors: bool) -> dict[str, str]:
    """Try changes; return what noticed each by key, "" for survivors."""
    path = STORE / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    results: dict[str, str] = dict(map(json.loads, lines))
    left = [
        mutant
        for mutant in chosen
        if mutant.key() not in results
        or (survivors and not results[mutant.key()])
    ]
    make_copy()
    for number, mutant in enumerate(left):
        if not number or mutant.path != left[number - 1].path:
            notes = observe(mutant.path)
            for name in notes.heavy:
                importlib.import_module(name)
            gc.freeze()  # Or each process would go through it, and copy it.
        killer = results[mutant.key()] = try_mutant(mutant, notes)
        with path.open("a") as stream:
            stream.write(json.dumps([mutant.key(), killer]) + "\n")
        survived = "" if killer else f"survived\n{mutant.difference()}"
        print(
            f"{number + 1}/{len(left)} {mutant.key()}: {killer}{survived}",
            flush=True,
        )
    return {mutant.key(): results[mutant.key()] for mutant in chosen}


def report(chosen: Sequence[Mutant], results: dict[str, str]) -> str:
    """Return the numbers of each file and the survivors, as Markdown."""
    lost = [mutant for mutant in chosen if not results[mutant.key()]]
    tried = collections.Counter(mutant.path for mutant in chosen)
    survived = collections.Counter(mutant.path for mutant in lost)
    return "\n".join(
        [
            "| File | Tried | Survived |",
            "| --- | ---: | ---: |",
            *(f"| `{p}` | {n} | {survived[p]} |" for p, n in tried.items()),
            f"| together | {len(chosen)} | {len(lost)} |",
            *(f"\n```diff\n{mutant.difference()}\n```" for mutant in lost),
        ]
    )


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", help="Default: those of CENTRAL.")
    parser.add_argument("--sample", type=int, help="Try so many changes.")
    parser.add_argument("--seed", type=int, default=1, help="Of the sample.")
    parser.add_argument(
        "--survivors",
        action="store_true",
        help="Try the survivors of earlier runs again.",
    )
    settings = parser.parse_args()
    found = [path for folder in CENTRAL for path in ROOT.glob(f"{folder}/**/*")]
    central = sorted(str(path.relative_to(ROOT)) for path in found)
    files = settings.files or [path for path in central if tests_of(path)]
    for path in files:
        if not (ROOT / path).is_file() or not tests_of(path):
            parser.error(f"{path} is no file of this project with tests.")
    chosen = draw(files, settings.sample, settings.seed)
    STORE.mkdir(exist_ok=True)
    text = report(chosen, run(chosen, survivors=settings.survivors))
    (STORE / "report.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
