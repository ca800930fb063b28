r"""Mutation tests: make one change to a file and see if a test fails.

    make mutants FILES="albert_tf/data/masking.py data_prep/writer/assemble.py"
    make mutants ARGS="--sample=200 --seed=1"

Numbers get plus and minus one, operators and comparisons are exchanged,
conditions negated, loops skipped, decorators and statements removed. Strings,
`raise` statements and annotations are not changed; messages have their own
tests. Neither are caches, which affect only speed. A change that no test
notices is a survivor.

Without files, the changes are drawn from all files that have tests. To compare
two commits, run the same sample on both, in a worktree of the earlier one by
`/path/to/.venv/bin/python /path/to/lab/mutants --sample=200 --seed=1`.

Each file is changed in a copy of the project, .mutants/copy. The tests are the
files tests/FOLDER/test_FILE*.py, else those of the folder that name FILE; the
first failure ends the trial. Changes that
were noticed are lines of .mutants/noticed.txt and are not tried again, so an
interrupted run continues; survivors are tried again.
"""

import argparse
import ast
import collections
import contextlib
import copy
import dataclasses
import difflib
import hashlib
import itertools
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

ROOT = pathlib.Path.cwd()
STORE = ROOT / ".mutants"
COPY = STORE / "copy"

# What is exchanged, in both directions.
PAIRS = (
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
    (ast.FloorDiv, ast.Mod),
    (ast.LShift, ast.RShift),
    (ast.BitOr, ast.BitAnd),
    (ast.And, ast.Or),
    (ast.Eq, ast.NotEq),
    (ast.Lt, ast.LtE),
    (ast.Lt, ast.GtE),
    (ast.Gt, ast.GtE),
    (ast.Gt, ast.LtE),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
)
# A trial may take the time of the tests without a change times a factor, plus
# seconds.
TIME_FACTOR, TIME_MORE = 2, 20
MEMORY = 8 << 30


def exchanges(node: Any) -> Iterator[str]:
    """Yield an operation with another operator."""
    operator, *more = getattr(node, "ops", None) or [node.op]
    for one, other in [*PAIRS, *(pair[::-1] for pair in PAIRS)]:
        if isinstance(operator, one):
            changed = copy.copy(node)
            changed.op, changed.ops = other(), [other(), *more]
            yield f"({ast.unparse(changed)})"


def changes(node: ast.AST, field: str) -> Iterator[str]:
    """Yield what may stand in place of a node, the `field` of another one."""
    if field == "test":
        yield f"(not ({ast.unparse(node)}))"
    if field == "iter":
        yield "()"
    if field == "decorator_list":
        yield "(lambda x: x)"
    match node:
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield f"({value + 1})"
            yield f"({value - 1})"
        case ast.BinOp() | ast.BoolOp() | ast.Compare():
            yield from exchanges(node)
        case ast.UnaryOp(operand=operand):
            yield f"({ast.unparse(operand)})"
        case _ if can_go(node):
            yield "pass"


def can_go(node: ast.AST) -> bool:
    """Tell whether it is a statement that its block can do without."""
    if isinstance(node, ast.Assign):  # A second one to the same name.
        return bool(names(node.value) & names(*node.targets))
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return is_call or isinstance(node, ast.AugAssign | ast.Break | ast.Continue)


def names(*trees: ast.AST) -> set[str]:
    """Return the names in expressions."""
    nodes = itertools.chain.from_iterable(map(ast.walk, trees))
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def changeable(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes below one that may be changed, and their fields."""
    for field, value in ast.iter_fields(tree):
        for node in value if isinstance(value, list) else [value]:
            if (
                isinstance(node, ast.AST)
                and field not in ("annotation", "returns")
                # Python 3.11 does not know the places in an f-string.
                and not isinstance(node, ast.Raise | ast.JoinedStr)
                and not (
                    field == "decorator_list" and "cache" in ast.dump(node)
                )
            ):
                yield node, field
                yield from changeable(node)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of a file."""

    path: str
    source: bytes = dataclasses.field(repr=False)
    begin: int
    end: int
    text: str

    def changed(self) -> bytes:
        """Return the file, changed."""
        new = self.text.encode()
        return self.source[: self.begin] + new + self.source[self.end :]

    def key(self) -> str:
        """Name it, and the version of its file."""
        digest = hashlib.sha256(self.changed()).hexdigest()
        return f"{self.path} {digest[:16]}"

    def difference(self) -> str:
        """Return the change as a patch."""
        lines = difflib.unified_diff(
            self.source.decode().splitlines(),
            self.changed().decode().splitlines(),
            *(self.path, self.path, "", "", 1, ""),
        )
        return "\n".join(lines)


def find_mutants(path: str) -> Iterator[Mutant]:
    """Yield all possible changes of a file."""
    source = (ROOT / path).read_bytes()
    lengths = map(len, source.splitlines(keepends=True))
    lines = [0, *itertools.accumulate(lengths)]
    for node, field in changeable(ast.parse(source)):
        for text in changes(node, field):
            begin = lines[node.lineno - 1] + node.col_offset
            end = lines[node.end_lineno - 1] + node.end_col_offset
            yield Mutant(path, source, begin, end, text)


def draw(files: Sequence[str], sample: int | None, seed: int) -> list[Mutant]:
    """Draw changes, in the order of the files; None means all.

    A smaller sample is a part of a larger one.
    """
    mutants = [mutant for path in files for mutant in find_mutants(path)]
    random.Random(seed).shuffle(mutants)
    return sorted(mutants[:sample], key=lambda mutant: files.index(mutant.path))


def tests_of(path: str) -> list[str]:
    """Return the files of tests for a file."""
    folder, name = os.path.split(path)
    stem = name.removesuffix(".py")
    beside = ROOT / "tests" / folder
    files = sorted(beside.glob(f"test_{stem}*.py")) or [
        test
        for test in sorted(beside.glob("test_*.py"))
        if re.search(rf"\b{stem}\b", test.read_text())
    ]
    return [str(test.relative_to(ROOT)) for test in files]


def make_copy() -> None:
    """Copy the project to the folder for changes."""
    shutil.rmtree(COPY, ignore_errors=True)
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
    for name in subprocess.check_output(command, text=True).split("\0"):
        if (ROOT / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)
    # The tests expect it beside the project.
    shared = STORE / "shared"
    if (ROOT.parent / "shared").is_dir() and not shared.exists():
        shared.symlink_to(ROOT.parent / "shared")


def failure(tests: Sequence[str], seconds: float) -> str:
    """Run tests in the copy; return what failed first, or ""."""
    options = ["-q", "-x", "--tb=line", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=COPY,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_DATA, (MEMORY, MEMORY)
        ),
    )
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return "time"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
    marked = [x for x in said.splitlines() if x.startswith(("FAILED", "ERROR"))]
    return [*marked, f"status {status}"][0] if status else ""


def run(chosen: Sequence[Mutant]) -> list[Mutant]:
    """Try changes; return the survivors."""
    store = STORE / "noticed.txt"
    noticed = store.read_text().splitlines() if store.exists() else []
    left = [mutant for mutant in chosen if mutant.key() not in noticed]
    limits: dict[str, float] = {}
    survivors = []
    make_copy()
    for number, mutant in enumerate(left, 1):
        path, tests = mutant.path, tests_of(mutant.path)
        if path not in limits:
            begun = time.monotonic()
            if failed := failure(tests, 3600):
                sys.exit(f"The tests of {path} fail as they are: {failed}")
            seconds = time.monotonic() - begun
            limits[path] = TIME_FACTOR * seconds + TIME_MORE
        (COPY / path).write_bytes(mutant.changed())
        killer = failure(tests, limits[path])
        (COPY / path).write_bytes(mutant.source)
        if killer:
            with store.open("a") as stream:
                stream.write(f"{mutant.key()}\n")
        else:
            survivors.append(mutant)
        told = killer or f"survived\n{mutant.difference()}"
        print(f"{number}/{len(left)} {path}: {told}", flush=True)
    return survivors


def report(chosen: Sequence[Mutant], survivors: Sequence[Mutant]) -> str:
    """Return the numbers of each file and the survivors, as Markdown."""
    tried = collections.Counter(mutant.path for mutant in chosen)
    survived = collections.Counter(mutant.path for mutant in survivors)
    return "\n".join(
        [
            "| File | Tried | Survived |",
            "| --- | ---: | ---: |",
            *(f"| `{p}` | {n} | {survived[p]} |" for p, n in tried.items()),
            f"| together | {len(chosen)} | {len(survivors)} |",
            *(f"\n```diff\n{mutant.difference()}\n```" for mutant in survivors),
        ]
    )


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", help="Default: all with tests.")
    parser.add_argument("--sample", type=int, help="Try so many changes.")
    parser.add_argument("--seed", type=int, default=1, help="Of the sample.")
    settings = parser.parse_args()
    found = [*ROOT.glob("albert_tf/**/*.py"), *ROOT.glob("data_prep/**/*.py")]
    known = sorted(str(path.relative_to(ROOT)) for path in found)
    files = settings.files or [path for path in known if tests_of(path)]
    for path in files:
        if not (ROOT / path).is_file() or not tests_of(path):
            parser.error(f"{path} is no file of this project with tests.")
    chosen = draw(files, settings.sample, settings.seed)
    STORE.mkdir(exist_ok=True)
    text = report(chosen, run(chosen))
    (STORE / "report.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
