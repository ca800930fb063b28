"""The wheel: what is in it, and that it runs without the clone."""

import email
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile

import pytest
from packaging import specifiers

import albert_tf
from albert_tf.common import configs
from tests.conftest import ROOT

MOST_BYTES = 15 * 1024**2

PARTS = (
    "CHANGELOG.md",
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "albert_tf",
    "configs",
    "constraints.txt",
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
def archive(tmp_path_factory):
    """Pack the source from a copy, because packing leaves folders behind."""
    source = tmp_path_factory.mktemp("source")
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, source / part)
    code = "from setuptools import build_meta as b; b.build_sdist('dist')"
    run(sys.executable, "-c", code, cwd=source)
    (path,) = (source / "dist").glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(archive, tmp_path_factory):
    """Build it from the archive, as `make dist` does."""
    target = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index"]
    run(*pip, "--no-build-isolation", "-w", target, archive, cwd=target)
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
    for name in configs.ONLY_IN_CLONES:
        large = {path for path in wanted if f"/{name}/" in path}
        assert large
        wanted -= large
        assert not [path for path in inside if name in path]
    assert wanted <= inside
    assert {
        "albert_tf/py.typed",
        "albert_tf/serving/server/page.html",
    } <= inside
    assert not [name for name in inside if name.startswith("tests")]


def test_files_for_upload_are_small_and_hold_no_tests(archive, wheel):
    with tarfile.open(archive) as packed:
        folders = {name.split("/")[1] for name in packed.getnames()[1:]}
    assert {"CHANGELOG.md", "LICENSE", "configs"} <= folders
    assert not {"tests", "lab", "docs"} & folders
    assert max(archive.stat().st_size, wheel.stat().st_size) <= MOST_BYTES


def test_metadata_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (n for n in packed.namelist() if n.endswith("/METADATA"))
        said = email.message_from_bytes(packed.read(name))
    assert said["Version"] == albert_tf.__version__
    assert said["License-Expression"] == "Apache-2.0"
    assert said["License-File"] == "LICENSE"
    assert said["Author"] and said["Keywords"] and said["Summary"]
    pythons = specifiers.SpecifierSet(said["Requires-Python"])
    classes = said.get_all("Classifier")
    named = [c.split(" :: ")[-1] for c in classes if ":: Python :: 3." in c]
    assert named == [
        f"3.{minor}" for minor in range(30) if f"3.{minor}" in pythons
    ]
    assert "Typing :: Typed" in classes


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
