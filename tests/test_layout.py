"""The import rules, read from the table in ARCHITECTURE.md."""

import ast
import pathlib
import re

import pytest

from tests.conftest import ROOT

PACKAGES = ("albert_tf", "data_prep")
# The files in which preparing data and training meet.
SHARED = {
    *(
        "errors",
        "files",
        "folder_lock",
        "options",
        "parallel",
        "progress",
        "strict_json",
    ),
    *("masking", "random_streams", "ranges", "record_encoding", "records"),
    "tokenization",
    # Tasks load Keras only to make a model.
    *("tasks/base", "tasks/features", "tasks/glue", "tasks/race"),
    *("tasks/registry", "tasks/squad_features"),
}
HEADING = "| File | May import from this project |"


def short_name(path: pathlib.Path) -> str:
    """`albert_tf/tasks/glue.py` is `tasks/glue`, `data_prep/x.py` is itself."""
    name = path.relative_to(ROOT).with_suffix("").as_posix()
    return name.removeprefix("albert_tf/")


FILES = {
    short_name(path): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.name != "__init__.py"
}
SCRIPTS = {
    name for name, path in FILES.items() if "run_script(" in path.read_text()
} - {"options"}


def imported_modules(path: pathlib.Path) -> set[str]:
    """Every module that a file imports, anywhere in it, with dots."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import."
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
            found.add(str(node.module))
    return found


def project_imports(name: str) -> set[str]:
    """Files of this project that a file imports, by short name."""
    places = {
        module.replace(".", "/").removeprefix("albert_tf/")
        for module in imported_modules(FILES[name])
    }
    return places & FILES.keys()


def read_table(text: str) -> list[tuple[list[str], set[str]]]:
    """Rows of the table: files, and what they import."""
    assert HEADING in text, f"ARCHITECTURE.md has no table {HEADING!r}."
    lines = text.split(HEADING, 1)[1].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        names, imports = line.strip("|").split("|")
        rows.append(
            (re.findall("`(.+?)`", names), set(re.findall("`(.+?)`", imports)))
        )
    return rows


@pytest.fixture(scope="module")
def table() -> list[tuple[list[str], set[str]]]:
    return read_table((ROOT / "ARCHITECTURE.md").read_text())


def test_every_file_has_one_row(table):
    assert sorted(sum((names for names, _ in table), [])) == sorted(FILES)


def test_files_import_what_the_table_says(table):
    written = {name: imports for names, imports in table for name in names}
    actual = {name: project_imports(name) for name in FILES}
    assert actual == written


def test_imports_go_downwards_only(table):
    below: set[str] = set()
    for names, imports in table:
        assert imports <= below, f"{names} come before {imports - below}."
        below |= set(names)


@pytest.mark.parametrize("name", FILES)
def test_no_file_imports_a_script(name):
    assert not project_imports(name) & SCRIPTS


@pytest.mark.parametrize(
    "name", [name for name in FILES if name.startswith("data_prep/")]
)
def test_preparing_data_never_loads_the_network(name):
    imports = {
        other
        for other in project_imports(name)
        if not other.startswith("data_prep/")
    }
    assert imports <= SHARED


@pytest.mark.parametrize(
    "name", [name for name in FILES if not name.startswith("data_prep/")]
)
def test_training_never_loads_the_data_preparation(name):
    imports = project_imports(name)
    assert not any(other.startswith("data_prep/") for other in imports)


def test_trainer_knows_no_task():
    seen, waiting = set(), {"training"}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        waiting |= project_imports(name) - seen
    assert not any(name.startswith(("tasks/", "heads/")) for name in seen)


@pytest.mark.parametrize("name", FILES)
def test_keras_has_one_spelling(name):
    modules = imported_modules(FILES[name])
    assert not {m for m in modules if re.match(r"(tensorflow\.)?keras\b", m)}
    text = FILES[name].read_text()
    assert "tf.keras" not in text
    if any(module.startswith("tf_keras") for module in modules):
        assert "import tf_keras as keras\n" in text
