"""Console scripts: each names a module that exists and is run as such."""

import importlib.util
import runpy
import tomllib

import pytest

from albert_tf import console
from tests.conftest import ROOT

SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "scripts"
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_runs_the_module_of_its_name(script, monkeypatch):
    module, _, name = SCRIPTS[script].partition(":")
    assert module == "albert_tf.console"
    ran = []
    monkeypatch.setattr(
        runpy, "run_module", lambda *given, **how: ran.append((given, how))
    )
    getattr(console, name)()
    (((target,), how),) = ran
    assert how == {"run_name": "__main__", "alter_sys": True}
    assert importlib.util.find_spec(target) is not None
    own = target.split(".")[1].removeprefix("run_")
    assert name == {"pretraining": "pretrain"}.get(own, own)
    assert script == f"albert-{name.replace('_', '-')}"


def test_every_command_has_a_script():
    folders = ("albert_tf", "data_prep")
    commands = {
        f"{folder}.{path.stem}"
        for folder in folders
        for path in (ROOT / folder).glob("*.py")
        if path.stem not in ("__init__", "console")
    }
    ran = {
        getattr(console, target.partition(":")[2]).args[0]
        for target in SCRIPTS.values()
    }
    assert ran == commands
