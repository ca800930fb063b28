"""Configs, recipes and weights that come with this package, found by name."""

import difflib
import os
import pathlib

from albert_tf.common import errors

_PACKAGE = pathlib.Path(__file__).parents[1]
# Weights that would make the package too large: setup.py.
ONLY_IN_CLONES = ("albert_small_multi",)
# In an installed package, and in a clone.
_FOLDERS = (_PACKAGE / "configs", _PACKAGE.parent / "configs")


def folder() -> pathlib.Path:
    return next((f for f in _FOLDERS if f.is_dir()), _FOLDERS[0])


def model_names() -> list[str]:
    """Return the names of the model configs, such as `albert_base_v2`."""
    return sorted(path.stem for path in folder().glob("models/*.json"))


def config_names() -> list[str]:
    """Return the names of all that `find` knows without a path."""
    return [*checkpoint_names(), *model_names()]


def checkpoint_names() -> list[str]:
    """Return the names of the folders of weights: `albert_small_en`."""
    return sorted(path.name for path in folder().glob("checkpoints/*/"))


def note(path: str) -> str:
    """Return " ...", a sentence, if `path` is a name that packages lack."""
    if path not in ONLY_IN_CLONES:
        return ""
    return f" {path} is in clones of the project, not in installed packages."


def find_checkpoint(path: str) -> str:
    """Return the folder of packaged weights for their name, else `path`."""
    ours = folder() / "checkpoints" / path
    is_name = os.path.basename(path) == path and not os.path.exists(path)
    return str(ours) if path and is_name and os.path.isdir(ours) else path


def find(path: str) -> str:
    """Return the path of a config or recipe of this package.

    An existing file is preferred; a folder is not, since weights may be in one
    that has the name of a config. Another path is returned unchanged.

    Args:
        path: A path, the name of a model config (`albert_base_v2`) or of
            weights of this package, or a path that begins with `configs/`.
    """
    if os.path.isfile(path):
        return path
    inside = path.removeprefix("configs/")
    checkpoint = find_checkpoint(path)
    if checkpoint != path:
        inside = f"checkpoints/{path}/albert_config.json"
    elif path in model_names():
        inside = f"models/{path}.json"
    elif inside == path:
        return path
    ours = folder() / inside
    return str(ours) if ours.exists() else path


def suggest_recipe(path: str) -> str:
    """Return " Did you mean ...?" with the recipe that has much this name.

    Example:
        For "hour": " Did you mean configs/pretraining/hour.flags?"
    """
    recipes = {p.stem: p for p in folder().rglob("*.flags")}
    near = difflib.get_close_matches(pathlib.Path(path).stem, recipes, 1, 0.8)
    names = (recipes[name].relative_to(folder()) for name in near)
    return "".join(f" Did you mean configs/{name}?" for name in names)


def find_model(path: str) -> str:
    """Return the path of a model config; refuse a name that is almost one."""
    resolved = find(path)
    near = difflib.get_close_matches(path, model_names(), 1, 0.8)
    if near and not os.path.exists(resolved):
        raise errors.UserError(
            f"`albert_config_file={path}` is not a file. Did you mean "
            f"{near[0]}?"
        )
    return resolved
