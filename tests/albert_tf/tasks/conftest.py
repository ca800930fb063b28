"""Runs of tasks, each made once for a file."""

import copy
import functools
import shutil
import sys

import pytest

from albert_tf.finetuning import registry
from albert_tf.tasks.glue import specs
from tests import export_options
from tests.albert_tf.model.conftest import (  # noqa: F401
    _seeded,
    small_config,
)
from tests.albert_tf.serving.conftest import (  # noqa: F401
    config,
    of_choices,
    of_numbers,
    of_pairs,
    tokenizer,
)

pytest.register_assert_rewrite(
    "tests.albert_tf.tasks.contract",
    "tests.albert_tf.tasks.contract_suite",
    "tests.albert_tf.tasks.table.table_runs",
)

from tests.albert_tf.tasks import contract  # noqa: E402


def pytest_collection_modifyitems(items):
    """Keep of the contract in each file the cases that it names."""

    def is_here(item):
        cases = getattr(item.module, "CASES_OF_CONTRACT", None)
        if cases is None or "run" not in item.fixturenames:
            return True
        return item.callspec.params["run"] in cases

    items[:] = filter(is_here, items)


@pytest.fixture(scope="module")
def runs(world, tmp_path_factory):
    """Makes the run of a case; at the end the user's modules are forgotten."""

    @functools.cache
    def make(name):
        here = tmp_path_factory.mktemp("task")
        sys.path.insert(0, str(here))
        run = contract.Run(world, name, here)
        run.learn(run.folder)
        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(specs, "TASKS", dict(specs.TASKS))
        patch.setattr(registry, "TASKS", dict(registry.TASKS))
        patch.setattr(sys, "path", [*sys.path])
        yield make
    for name in ("own_task", "own_head"):
        sys.modules.pop(name, None)


@pytest.fixture
def run(runs, request):
    return runs(request.param)


@pytest.fixture
def answers(run, tmp_path):
    """Those of `predict`, elsewhere and with other batches than the run's."""
    if run.answers is None:
        moved = shutil.copytree(run.folder, tmp_path / "moved")
        given = {"run_dir": moved, "batch_size": 5, **run.own_module}
        path = tmp_path / "answers.jsonl"
        run.answers = export_options.ask(run.own, path, **given)
    return copy.deepcopy(run.answers)
