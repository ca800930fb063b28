"""Worker processes beside a program that has loaded TensorFlow."""

import operator
import os
import re
import types

import pytest

from albert_tf.common import parallel, preemption
from tests.conftest import ROOT, python

# A stand-in decides as TensorFlow does, and takes no seconds to load.
SCRIPT = """
import operator, sys, types
from albert_tf.common import parallel

print("started", flush=True)
sys.modules.setdefault("tensorflow", types.ModuleType("tensorflow"))
with parallel.workers(2, None) as each:
    print(list(each(operator.neg, range(4))))
print(__name__, sys.modules["__main__"].__name__, "parallel" in globals())
"""
OWN_FUNCTION = """
import sys, types
from albert_tf.common import parallel

def double(number):
    return 2 * number

if __name__ == "__main__":
    sys.modules["tensorflow"] = types.ModuleType("tensorflow")
    with parallel.workers(2, None) as each:
        print(list(each(double, range(4))))
"""

# SIGTERM comes while a process is forked, when Python drops exceptions.
LEAVING = """
import operator, os, signal, time
from albert_tf.common import parallel, preemption

def ask_to_end():
    os.kill(os.getpid(), signal.SIGTERM)
    sum(range(10_000))

os.register_at_fork(before=ask_to_end)
with preemption.exiting_at_once(), parallel.workers(2, None) as each:
    print(list(each(operator.neg, range(4))))
"""


def run(tmp_path, program, status=0):
    script = tmp_path / "script.py"
    script.write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return python(script, status=status, env=environment).stdout.splitlines()


def test_workers_leave_the_script_alone(tmp_path):
    """It has no `if __name__ == "__main__"`, and may be slow to load."""
    assert run(tmp_path, SCRIPT) == [
        "started",
        "[0, -1, -2, -3]",
        "__main__ __main__ True",
    ]


def test_workers_know_the_functions_of_the_script(tmp_path):
    assert run(tmp_path, OWN_FUNCTION) == ["[0, 2, 4, 6]"]


def test_sigterm_while_a_process_is_forked_ends_the_program(tmp_path):
    assert run(tmp_path, LEAVING, preemption.EXIT_CODE) == []


def test_results_come_in_order_and_few_items_are_taken_ahead():
    taken = []

    def items():
        for number in range(20):
            taken.append(number)
            yield number

    with parallel.workers(2, None) as each:
        found = each(operator.neg, items())
        assert next(found) == 0 and len(taken) == 6
        assert list(found) == [-number for number in range(1, 20)]


@pytest.mark.parametrize(
    ("codes", "says"),
    [
        ([None, -15, -9, 0], r"killed \(SIGKILL\).* memory runs out"),
        ([-15, 0, -11], r"ended by a signal \(SIGSEGV\)"),
        ([0, 3], "ended unexpectedly, with status 3"),
        ([-15], r"ended by a signal \(SIGTERM\)"),
    ],
)
def test_the_worker_that_ended_first_is_described(codes, says):
    workers = [types.SimpleNamespace(exitcode=code) for code in codes]
    assert re.search(says, parallel._describe_end(workers))


@pytest.mark.parametrize("known", [True, False])
def test_every_core_has_a_worker(monkeypatch, known):
    """Where the system does not say which we may use, all count."""
    if known:
        monkeypatch.setattr(
            os, "sched_getaffinity", lambda _: {1, 3, 5}, raising=False
        )
    else:
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
        monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert parallel.resolve(0) == 3
    assert parallel.resolve(7) == 7
