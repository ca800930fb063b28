"""The wheel: what is in it, and that it runs without the clone."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile

import pytest

from tests.conftest import ROOT

PARTS = (
    "LICENSE",
    "README.md",
    "albert_tf",
    "configs",
    "data_prep",
    "pyproject.toml",
    "setup.py",
)


def run(*command, cwd):
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON")
    }
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build it from a copy, because building leaves folders behind."""
    source = tmp_path_factory.mktemp("source")
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, source / part)
    target = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index"]
    run(*pip, "--no-build-isolation", "-w", target, ".", cwd=source)
    (path,) = target.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment with the wheel, beside the packages of this one."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    (packages,) = place.glob("lib/python*/site-packages")
    others = sysconfig.get_path("purelib")
    (packages / "others.pth").write_text(f"{others}\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "install"]
    run(*pip, "--no-deps", "--no-index", wheel, cwd=place)
    return place


def test_wheel_has_all_modules_and_configs(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        str(path.relative_to(ROOT))
        for package in ("albert_tf", "data_prep")
        for path in (ROOT / package).rglob("*.py")
    } | {
        f"albert_tf/{path.relative_to(ROOT)}"
        for path in (ROOT / "configs").rglob("*.*")
        if path.suffix in (".json", ".flags")
    }
    assert wanted <= inside
    assert {
        "albert_tf/py.typed",
        "albert_tf/serving/server/page.html",
    } <= inside
    assert not [name for name in inside if name.startswith("tests")]


def test_command_runs_in_another_folder(installed, tmp_path):
    (tmp_path / "prose.txt").write_text("One came. Two went away.\n")
    command = installed / "bin" / "albert-split-sentences"
    run(command, "--input_file=prose.txt", "--output_file=out", cwd=tmp_path)
    assert (tmp_path / "out").read_text() == "One came.\nTwo went away.\n\n"


def test_installed_package_finds_its_configs(installed, tmp_path):
    code = (
        "from albert_tf.common import configs; print(configs.folder());"
        "print(configs.find('albert_base_v2'))"
    )
    python = installed / "bin" / "python"
    folder, path = run(python, "-c", code, cwd=tmp_path).split()
    assert pathlib.Path(folder).is_relative_to(installed)
    assert (
        pathlib.Path(path).read_bytes()
        == (ROOT / "configs/models/albert_base_v2.json").read_bytes()
    )


def test_what_running_needs_has_no_test_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = " ".join(project["dependencies"])
    for name in ("models-official", "pytest", "hypothesis"):
        assert name not in needed
    assert "==" not in needed
