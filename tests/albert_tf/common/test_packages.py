"""Optional packages: what is imported, and the message without them."""

import json
import json.decoder
import re
import sys

from albert_tf.common import packages
from tests.conftest import refused


def test_the_first_module_is_returned():
    found = packages.require(
        "json", "json.decoder", install="pip install json", argument="format"
    )
    assert found is json


def test_what_is_missing_is_named_with_its_option_and_installation():
    expected = (
        "`format=onnx` needs no_such.package, which cannot be imported: No "
        "module named 'no_such'. Install it: pip install one two"
    )
    with refused(f"^{re.escape(expected)}$"):
        packages.require(
            "json",
            "no_such.package",
            install="pip install one two",
            argument="format=onnx",
        )


def test_a_package_that_fails_to_import_says_why(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text(
        "raise ImportError('libx.so.1: cannot open')"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with refused("broken_package.*libx.so.1"):
        packages.require("broken_package", install="pip x", argument="unit")
