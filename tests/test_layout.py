"""Folders are layers; ARCHITECTURE.md states the rule, this file checks it.

A rule is one test, which lists all files that break it.
"""

import ast
import re
import sys
from importlib import metadata

from packaging import requirements, utils

from tests.conftest import ROOT, python

# Each may import those before it, and itself. Those of one line do not import
# each other. Files outside of folders are commands.
LAYERS = (
    ("common",),
    ("text", "data"),
    ("model",),
    ("training",),
    ("finetuning",),
    ("serving",),
    ("tasks",),
    ("commands",),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# They read and print command lines.
NAME_FLAGS = {
    f"albert_tf/common/{name}.py"
    for name in ("errors", "option_help", "options")
}
OF_TEXTS = "albert_tf/tasks/glue/", "albert_tf/tasks/table/"
LONGEST_TEST_FILE = 700  # Lines.


def imported_modules(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            dots = "." * node.level
            found |= {f"{dots}{node.module}.{a.name}" for a in node.names}
            found.add(f"{dots}{node.module}")
        elif isinstance(node, ast.Call) and (
            ast.unparse(node.func) == "imports.later"
        ):
            found.add(ast.literal_eval(node.args[0]))
    return found


TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text())
    for package in ("albert_tf", "data_prep")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.name != "__init__.py"
}
MODULES = {name: name.removesuffix(".py").replace("/", ".") for name in TREES}
IMPORTS = {name: imported_modules(tree) for name, tree in TREES.items()}


def layer(module: str) -> str:
    package, folder = module.split(".")[:2]
    is_library = package == "albert_tf" and folder in RANK
    return folder if is_library else "commands"


def may_import(name: str, module: str) -> bool:
    if module.split(".")[0] in ("lab", "tests"):
        return False
    if module.startswith("data_prep"):
        return name.startswith("data_prep/")
    if not module.startswith("albert_tf."):
        return not module.startswith(".")
    own, other = layer(MODULES[name]), layer(module)
    return own == other or RANK[other] < RANK[own]


def test_a_layer_imports_only_the_layers_below():
    wrong = [
        (name, module)
        for name, modules in IMPORTS.items()
        for module in modules
        if not may_import(name, module)
    ]
    assert not wrong


COMMANDS = ("embeddings", "race", "squad", "tagger")  # Of slices.


def test_only_its_own_commands_import_a_slice():
    own = {
        f"albert_tf/{command}.py"
        for command in ("distill", *(f"run_{name}" for name in COMMANDS))
    }
    own |= {"albert_tf/run_classifier.py", "albert_tf/run_glue.py"}
    own |= {"data_prep/extract_passages.py"}  # Of RACE.
    own |= {"data_prep/create_finetuning_data.py"}  # Of GLUE.
    own |= {"data_prep/mine_negatives.py"}  # Of vectors.
    # They are tasks of texts, too.
    own |= {n for n in TREES if n.startswith(OF_TEXTS)}
    wrong = [
        (name, module)
        for name, modules in IMPORTS.items()
        for module in modules
        if module.startswith("albert_tf.tasks.")
        and name.split("/")[2:3] != module.split(".")[2:3]
        and name not in own
    ]
    assert not wrong


def modules_of_slices(*names: str) -> list[str]:
    return [
        module
        for module in MODULES.values()
        if re.fullmatch(rf"albert_tf\.tasks\.\w+\.({'|'.join(names)})", module)
    ]


def test_tasks_and_what_decodes_load_no_tensorflow():
    modules = modules_of_slices("task", "portable")
    program = f"import sys, {', '.join(modules)}\nprint(*sys.modules)"
    loaded = python("-c", program).stdout.split()
    assert {"albert_tf.tasks.squad.portable"} <= {*modules} <= {*loaded}
    assert not {"tensorflow", "tf_keras"} & set(loaded)


def test_what_decodes_needs_numpy_alone():
    """Exports for other runtimes have a copy of it, and of its imports."""
    wrong, names = [], {module: name for name, module in MODULES.items()}
    allowed = {"albert_tf", "numpy", *sys.stdlib_module_names}
    pending = modules_of_slices("portable")
    for module in pending:  # Also those that are found on the way.
        # What functions import, exports do not call.
        top = [
            node
            for node in TREES[names[module]].body
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        for imported in imported_modules(ast.Module(top, [])):
            if imported in names and imported not in pending:
                pending.append(imported)
            elif imported.split(".")[0] not in allowed:
                wrong.append((module, imported))
    assert len(pending) > 3 and not wrong


ASKS = {"getattr", "hasattr", "isinstance"}


def asks_a_task(node: ast.AST) -> bool:
    """Whether it asks what kind of task it has, instead of the contract."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ASKS:
        return False
    return ast.unparse(node.args[0]).split(".")[-1] == "task"


def test_only_slices_know_the_kinds_of_tasks():
    above = {"finetuning", "serving", "commands"}
    wrong = [
        (name, node.lineno)
        for name, tree in TREES.items()
        if layer(MODULES[name]) in above
        for node in ast.walk(tree)
        if asks_a_task(node)
    ]
    assert not wrong


def test_no_file_imports_a_command():
    commands = {m for name, m in MODULES.items() if name.count("/") == 1}
    wrong = [(name, m & commands) for name, m in IMPORTS.items()]
    assert not [(name, found) for name, found in wrong if found]


def test_neither_commands_nor_conftest_import_tensorflow():
    """Commands load it when their options have been checked."""
    modules = [m for m in MODULES.values() if layer(m) == "commands"]
    modules += ["tests.conftest", "tests.albert_tf.conftest"]
    program = f"import sys, {', '.join(modules)}\nprint(*sys.modules)"
    loaded = python("-c", program).stdout.split()
    assert "data_prep.create_pretraining_data" in loaded
    assert not {"tensorflow", "tf_keras"} & set(loaded)


def texts_for_users(tree: ast.AST) -> list[str]:
    """Every string of a file but docstrings and what `--help` shows."""
    left_out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            left_out.add(node.value)
        elif isinstance(node, ast.Call) and (
            ast.unparse(node.func) in ("option", "shared_options.overwrite")
        ):
            left_out |= set(ast.walk(node))
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node not in left_out
    ]


def test_the_library_names_arguments_and_no_flags():
    wrong = [
        (name, text)
        for name, tree in TREES.items()
        if layer(MODULES[name]) != "commands" and name not in NAME_FLAGS
        for text in texts_for_users(tree)
        if "python -m " not in text and re.search(r"--\w|--$", text)
    ]
    assert not wrong


def spells_keras_otherwise(name: str) -> bool:
    text = (ROOT / name).read_text()
    if any(re.match(r"(tensorflow\.)?keras\b", m) for m in IMPORTS[name]):
        return True
    has_keras = any(module.startswith("tf_keras") for module in IMPORTS[name])
    import_is_missing = "import tf_keras as keras\n" not in text
    return "tf.keras" in text or (has_keras and import_is_missing)


def test_keras_has_one_spelling():
    assert not list(filter(spells_keras_otherwise, TREES))


def test_no_test_file_is_long():
    long = [
        path
        for path in (ROOT / "tests").rglob("*.py")
        if path.read_text().count("\n") > LONGEST_TEST_FILE
    ]
    assert not long


# What could run code that was read.
MODULES_OF_CODE = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
CALLS_OF_CODE = {"__import__", "compile", "eval", "exec"}
METHODS_OF_CODE = {"from_config", "load_model", "model_from_json"}


def runs_code(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in CALLS_OF_CODE
    if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
        return ast.unparse(node.value) != "False"
    return isinstance(node, ast.Attribute) and node.attr in METHODS_OF_CODE


def test_nothing_that_is_read_can_be_code():
    wrong = [
        (name, node.lineno)
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if runs_code(node)
    ]
    wrong += [
        (name, found)
        for name, modules in IMPORTS.items()
        if (found := {m.split(".")[0] for m in modules} & MODULES_OF_CODE)
    ]
    assert not wrong


def anchors(page: str) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    headings = re.findall(r"^#+ (.*)$", page, re.M)
    return {
        re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings
    }


def test_links_of_pages_hold():
    names = [
        name
        for pattern in ("*.md", "docs/*.md", "configs/**/*.md", "lab/**/*.md")
        for name in ROOT.glob(pattern)
    ]
    pages = {
        name: re.sub(r"```.*?```", "", name.read_text("utf-8"), flags=re.S)
        for name in names
    }
    wrong = []
    for path, text in pages.items():
        for link in re.findall(r"\]\((?!http)([^)\s]+)\)", text):
            name, _, heading = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            known = anchors(pages.get(target, ""))
            if not target.exists() or heading and heading not in known:
                wrong.append((str(path), link))
    assert len(pages) > 20 and not wrong


def test_every_page_is_listed_on_the_site():
    listed = (ROOT / "tools/site/mkdocs.yml").read_text().split()
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert pages and not pages - set(listed)


def pins(file: str) -> set[str]:
    found = re.findall(r"([\w.-]+)==", (ROOT / file).read_text())
    return set(map(utils.canonicalize_name, found))


def test_what_pinned_packages_need_is_pinned():
    pinned = pins("constraints.txt")
    needed = [
        requirements.Requirement(text)
        for found in metadata.distributions()
        if utils.canonicalize_name(found.name) in pinned
        for text in found.requires or []
    ]
    names = {
        utils.canonicalize_name(one.name)
        for one in needed
        if not one.marker or one.marker.evaluate({"extra": ""})
    }
    missing = names - pinned - pins("pyproject.toml")
    assert len(names) > 50 and not missing, missing
