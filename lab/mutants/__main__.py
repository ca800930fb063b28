r"""Mutation tests: make one change to a file and see if a test fails.

    make mutants FILES="albert_tf/data/masking.py data_prep/writer/assemble.py"
    make mutants FILES=albert_tf/model/modeling.py ARGS="--sample=100"

The changes are those of cosmic-ray: numbers plus and minus one, operators and
comparisons exchanged, conditions negated, loop bodies skipped, decorators and
statements removed. Strings, `raise` statements and annotations are not changed;
messages have their own tests. Neither is `lru_cache`, which affects only speed.
A change that no test notices is a survivor; results.md explains each.

Each file is changed in a copy of the project below .mutants/. The tests are
those of `TESTS`: first those that reach the changed line, fastest first, then
the others except slow ones. The first failure ends the trial. Every trial runs
in a process forked from one that has imported TensorFlow but not used it.

Results are in .mutants/FILE.sqlite, which cosmic-ray's tools (cr-report,
cr-html) can read. An interrupted run continues; a changed file starts again.
After adding tests, --survivors tries the survivors again.
"""

import argparse
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
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import coverage
import pytest
from cosmic_ray import mutating, plugins, work_db, work_item
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.operators import operator as operators
from parso.python import tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORE = ROOT / ".mutants"
COPY = STORE / "copy"

# In addition to the file's test_FILE.py. For files with options also
# tests/test_option_defaults.py.
TESTS = {
    "albert_tf/model/checkpoints/restoring.py": [
        "tests/parity/test_original_model.py"
    ],
    "albert_tf/model/heads/question_answering.py": [
        "tests/albert_tf/model/test_dropout.py",
        "tests/parity/test_original_heads.py",
    ],
    "albert_tf/model/heads/classification.py": [
        "tests/albert_tf/model/test_dropout.py",
        "tests/parity/test_original_heads.py",
    ],
    "albert_tf/model/heads/pretraining.py": [
        "tests/albert_tf/model/test_dropout.py",
        "tests/parity/test_original_model.py",
    ],
    "albert_tf/model/heads/replaced_tokens.py": [
        "tests/albert_tf/training/test_training_loop.py",
    ],
    "albert_tf/model/checkpoints/huggingface.py": [
        "tests/parity/test_huggingface.py"
    ],
    "albert_tf/model/modeling.py": [
        "tests/albert_tf/model/test_dropout.py",
        "tests/parity/test_original_model.py",
    ],
    "albert_tf/finetuning/squad/squad_features.py": [
        "tests/parity/test_original_squad.py"
    ],
    "albert_tf/finetuning/squad/squad_answers.py": [
        "tests/parity/test_original_squad.py"
    ],
    "albert_tf/training/train_step.py": [
        "tests/albert_tf/model/test_dropout.py",
        "tests/parity/test_original_training.py",
    ],
}

# One or two of cosmic-ray's exchanges of each operator, not all of them.
EXCHANGES = {
    "Binary": "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul "
    "LShift_RShift RShift_LShift BitOr_BitAnd BitAnd_BitOr BitXor_BitAnd",
    "Comparison": "Eq_NotEq NotEq_Eq Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE "
    "GtE_Gt GtE_Lt Is_IsNot IsNot_Is",
    "Unary": "USub_UAdd Delete_USub Delete_Not Delete_Invert",
}
OTHERS = (
    *("AddNot", "NumberReplacer", "RemoveDecorator", "ZeroIterationForLoop"),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue"),
    *("ReplaceContinueWithBreak", "ReplaceTrueWithFalse"),
    "ReplaceFalseWithTrue",
)

# Imported first in a process of tests, if at all.
HEAVY = ("numpy", "tensorflow", "tf_keras", "tensorflow_text")
# Limit of a test: its usual CPU time times a factor, plus seconds for shared
# fixtures that another test may have built.
TIME_FACTOR, TIME_MORE = 3, 10
# A test is slow from this many seconds.
SLOW = 3
# Ratio of wall time to CPU time, to stop tests that wait forever.
WAITING = 6
MEMORY = 8 << 30
TIME_IS_UP = signal.SIGXCPU, signal.SIGVTALRM, signal.SIGKILL
# For the samples.
SEED = 12345


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
        names = {name.value for name in node.get_defined_names(True)}
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
        """See the tests."""
        return ()


@functools.cache
def make_operators() -> dict[str, operators.Operator]:
    """Return all operators by name, each an instance."""
    names = [
        f"core/Replace{kind}Operator_{exchange}"
        for kind, exchanges in EXCHANGES.items()
        for exchange in exchanges.split()
    ]
    names += [f"core/{name}" for name in OTHERS]
    known = set(plugins.operator_names())
    missing = set(names) - known
    assert not missing, f"cosmic-ray lacks {sorted(missing)}."
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


def find_mutants(path: str, source: str) -> Iterator[work_item.WorkItem]:
    """Yield all possible changes of a file."""
    for name, operator in make_operators().items():
        places = (
            (node, *place)
            for node in ast_nodes(get_ast(source))
            for place in operator.mutation_positions(node)
        )
        for number, (node, start, end) in enumerate(places):
            if not is_passed_over(node):
                mutation = work_item.MutationSpec(
                    path, name, number, start, end
                )
                yield work_item.WorkItem.single(f"{name} {number}", mutation)


def apply(source: str, item: work_item.WorkItem) -> str:
    """Return the changed source of a file."""
    (mutation,) = item.mutations
    operator = make_operators()[mutation.operator_name]
    changed = mutating.mutate_code(source, operator, mutation.occurrence)
    assert changed is not None, f"There is no {item.job_id}."
    return changed


def difference(path: str, source: str, changed: str) -> str:
    """Return the change as a patch."""
    lines = difflib.unified_diff(
        source.splitlines(), changed.splitlines(), path, path, "", "", 1, ""
    )
    return "\n".join(lines)


# Processes.


def run_child(
    work: Callable[[], int], log: pathlib.Path, seconds: int
) -> int | None:
    """Run a function in a forked process.

    Args:
        work: Returns the status of the process.
        log: What it prints.
        seconds: Processor time that it may take.

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
    status = _wait(child, time.monotonic() + seconds * WAITING)
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


def _wait(child: int, until: float) -> int:
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL


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


class Alarm:
    """A pytest plugin that ends the process if a test takes too long."""

    def __init__(self, limit: Callable[[str], int]) -> None:
        """`limit` maps the name of a test to seconds of CPU time."""
        self._limit = limit

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Set a limit of the system, since a hanging test may block Python."""
        signal.setitimer(signal.ITIMER_VIRTUAL, self._limit(item.nodeid))
        result = yield
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return result


# A run.


@dataclasses.dataclass(frozen=True)
class Notes:
    """The tests of a file, without changes.

    Attributes:
        seconds: Processor time of each test, by its name.
        lines: Tests that reach each line; "" is the import.
        heavy: Modules that they load.
    """

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

    def limit(self, *tests: str) -> int:
        """Return the CPU time for some tests, in whole seconds."""
        usual = sum(self.seconds[test] for test in tests)
        return int(TIME_FACTOR * usual) + TIME_MORE


def tests_of(path: str) -> list[str]:
    """Return the files of tests for a file."""
    own = pathlib.Path("tests", path)
    own = own.with_name(f"test_{own.name}")
    found = [str(own)] if (ROOT / own).exists() else []
    found += TESTS.get(path, [])
    if "option(" in (ROOT / path).read_text():
        found.append("tests/test_option_defaults.py")
    return found


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
    """Run the tests of an unchanged file.

    Raises:
        SystemExit: One fails.
    """
    result, log = STORE / "notes.json", STORE / "tests.log"
    status = run_child(
        lambda: Watch(path).run(tests_of(path), result), log, 3600
    )
    if status != 0:
        sys.exit(f"The tests of {path} fail as they are; see {log}.")
    return Notes(**json.loads(result.read_text()))


def try_mutant(
    path: str, source: str, item: work_item.WorkItem, notes: Notes
) -> work_item.WorkResult:
    """Run the tests on a changed file."""
    changed = apply(source, item)
    (mutation,) = item.mutations
    target, log = COPY / path, STORE / "mutant.log"
    outcome, killer = work_item.TestOutcome.SURVIVED, ""
    try:
        target.write_text(changed)
        for tests in notes.rounds(mutation.start_pos[0], mutation.end_pos[0]):
            status = run_child(
                functools.partial(run_pytest, tests, Alarm(notes.limit)),
                log,
                notes.limit(*tests),
            )
            if status != 0:
                outcome = work_item.TestOutcome.KILLED
                killer = _killer(status, log)
                break
    finally:
        target.write_text(source)
    return work_item.WorkResult(
        work_item.WorkerOutcome.NORMAL,
        killer,
        outcome,
        difference(path, source, changed),
    )


def _killer(status: int | None, log: pathlib.Path) -> str:
    if status is None:
        return "time"
    lines = log.read_text(errors="replace").splitlines()
    marks = ("FAILED ", "ERROR ")
    return next((x for x in lines if x.startswith(marks)), f"status {status}")


def store_of(path: str) -> pathlib.Path:
    """Return the path of a file's results."""
    return STORE / (path.replace("/", ".").removesuffix(".py") + ".sqlite")


def session(path: str, source: str) -> work_db.WorkDB:
    """Open the results of a file; those of an older version are dropped."""
    name = store_of(path)
    mark = name.with_suffix(".sha256")
    digest = hashlib.sha256(source.encode()).hexdigest()
    if not mark.exists() or mark.read_text() != digest:
        name.unlink(missing_ok=True)
        database = work_db.WorkDB(name, work_db.WorkDB.Mode.create)
        database.add_work_items(find_mutants(path, source))
        mark.write_text(digest)
        return database
    return work_db.WorkDB(name, work_db.WorkDB.Mode.open)


def choose(
    database: work_db.WorkDB, sample: int | None, survivors: bool
) -> list[work_item.WorkItem]:
    """Return the remaining trials: of a sample, or its survivors."""
    items = sorted(database.work_items, key=lambda item: item.job_id)
    # A smaller sample is a prefix of a larger one.
    random.Random(SEED).shuffle(items)
    results = dict(database.results)
    return [
        item
        for item in items[:sample]
        if item.job_id not in results
        or (survivors and not results[item.job_id].is_killed)
    ]


def run(path: str, sample: int | None, survivors: bool) -> None:
    """Try the changes of a file that have no result yet."""
    source = (ROOT / path).read_text()
    database = session(path, source)
    items = choose(database, sample, survivors)
    if not items:
        return
    make_copy()
    notes = observe(path)
    for name in notes.heavy:
        importlib.import_module(name)
    gc.freeze()  # Or each process would go through all of it, and copy it.
    for number, item in enumerate(items, 1):
        result = try_mutant(path, source, item, notes)
        database.set_result(item.job_id, result)
        survived = "" if result.is_killed else f"\n{result.diff}"
        print(
            f"{path} {number}/{len(items)} {item.job_id}: "
            f"{result.test_outcome.value} {result.output}{survived}",
            flush=True,
        )


def report(paths: Sequence[str]) -> str:
    """Return the table of all files and the survivors, as Markdown."""
    rows = [
        "| File | Changes | Tried | Survived |",
        "| --- | --- | --- | --- |",
    ]
    patches = []
    for path in paths:
        database = work_db.WorkDB(store_of(path), work_db.WorkDB.Mode.open)
        results = [result for _, result in database.results]
        lost = [r for r in results if not r.is_killed]
        rows.append(
            f"| `{path}` | {database.num_work_items} | {len(results)} | "
            f"{len(lost)} |"
        )
        patches += [f"```diff\n{result.diff}\n```" for result in lost]
    return "\n".join(rows) + "\n\n" + "\n\n".join(patches) + "\n"


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", help="Files to change.")
    parser.add_argument(
        "--sample",
        type=int,
        help="Try so many changes of each file, chosen by a fixed seed.",
    )
    parser.add_argument(
        "--survivors",
        action="store_true",
        help="Try the survivors of earlier runs again.",
    )
    settings = parser.parse_args()
    for path in settings.files:
        if not (ROOT / path).is_file() or not tests_of(path):
            parser.error(f"{path} is no file of this project with tests.")
    STORE.mkdir(exist_ok=True)
    for path in settings.files:
        run(path, settings.sample, settings.survivors)
    text = report(settings.files)
    (STORE / "report.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
