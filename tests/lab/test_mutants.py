"""The changes of a file, and how they are tried in a small project."""

import pytest

from lab.mutants import __main__ as mutants

SOURCE = """\
@decorated
@functools.cache
def work(x: int | None, é) -> int | None:
    x = x * 3
    y = "a" if é in x else f"{x + 1}"
    for one in x:
        print(one)
    if not x < 2:
        raise ValueError(x + 1)
"""
# Each with what stands there now.
CHANGES = [
    ("decorated", "(lambda x: x)"),
    ("x = x * 3", "pass"),
    ("x * 3", "(x / 3)"),
    ("3", "(4)"),
    ("3", "(2)"),
    ("é in x", "(not (é in x))"),
    ("é in x", "(é not in x)"),
    ("x", "()"),
    ("print(one)", "pass"),
    ("not x < 2", "(not (not x < 2))"),
    ("not x < 2", "(x < 2)"),
    ("x < 2", "(x <= 2)"),
    ("x < 2", "(x >= 2)"),
    ("2", "(3)"),
    ("2", "(1)"),
]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder that stands in for the project, with a file `work.py`."""
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "STORE", tmp_path)
    monkeypatch.setattr(mutants, "COPY", tmp_path / "copy")
    (tmp_path / "work.py").write_text(SOURCE)
    return tmp_path


def test_changes_of_every_kind(project):
    found = list(mutants.find_mutants("work.py"))
    replaced = [m.source[m.begin : m.end].decode() for m in found]
    texts = [mutant.text for mutant in found]
    assert sorted(zip(replaced, texts, strict=True)) == sorted(CHANGES)
    for mutant in found:
        compile(mutant.changed(), "work.py", "exec")
    assert (
        "-    x = x * 3\n+    pass" in found[texts.index("pass")].difference()
    )


def test_survivors_are_tried_again(project, monkeypatch, capsys):
    content = {
        "pytest.ini": "[pytest]\npythonpath = .\n",
        "work.py": "def is_large(x):\n    return x > 1\n",
        "tests/test_work.py": "import work\n\n"
        "def test_it():\n    assert work.is_large(2)\n",
    }
    for folder in (project, project / "copy"):
        (folder / "tests").mkdir(parents=True)
        for name, text in content.items():
            (folder / name).write_text(text)
    monkeypatch.setattr(mutants, "make_copy", lambda: None)
    chosen = mutants.draw(["work.py"], None, seed=1)
    for tried in (4, 2):
        survivors = mutants.run(chosen)
        assert f"{tried}/{tried} work.py: " in capsys.readouterr().out
        assert {mutant.text for mutant in survivors} == {"(x >= 1)", "(0)"}
    table = mutants.report(chosen, survivors)
    assert "| `work.py` | 4 | 2 |" in table and "+    return x > (0)" in table
