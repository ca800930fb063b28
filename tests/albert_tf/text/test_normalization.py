"""The description of how text is normalized for a vocabulary."""

import json
import logging
import re
import shutil

import pytest

from albert_tf.text import keras_hub_rules, normalization
from albert_tf.text.normalization import Normalization
from tests.conftest import refused

NOTHING_GIVEN = dict.fromkeys(Normalization().settings)


def make_vocabulary(folder, description=None):
    path = folder / "de.model"
    path.write_bytes(b"A vocabulary.")
    if description is not None:
        normalization.write(str(path), description)
    return str(path)


def test_description_lies_beside_the_vocabulary(tmp_path):
    path = make_vocabulary(tmp_path, Normalization(keep_accents=True))
    content = (tmp_path / "de.normalization.json").read_text()
    assert json.loads(content) == {
        "format_version": 1,
        "kind": "sentencepiece",
        "unicode_form": "NFKC",
        "do_lower_case": True,
        "keep_accents": True,
        "strip_spurious_marker": False,
    }
    found = normalization.read(path, "sentencepiece")
    assert found == Normalization(keep_accents=True)


@pytest.mark.parametrize(
    "kind, lower, keep, form, keeps",
    [
        ("sentencepiece", True, False, "NFKD", False),
        ("sentencepiece", False, True, "NFKC", True),
        ("sentencepiece", False, False, "NFKD", False),
        ("wordpiece", True, False, "NFD", False),
        ("wordpiece", True, True, "none", True),
        ("wordpiece", False, False, "none", True),
    ],
)
def test_unicode_form_and_the_options_of_transformers(
    kind, lower, keep, form, keeps
):
    rule = Normalization(lower, keep, kind=kind)
    assert rule.unicode_form == form
    assert rule.of_classes == {
        "do_lower_case": lower,
        "keep_accents": keeps,
        "strip_accents": not keeps,
    }


def test_original_rule_is_assumed_and_said_once(tmp_path, caplog):
    path = make_vocabulary(tmp_path)
    caplog.set_level(logging.INFO, "absl")
    # Nothing is said when all options are given.
    given = {**Normalization().settings, "do_lower_case": False}
    found = normalization.resolve(path, "sentencepiece", given)
    assert found == Normalization(do_lower_case=False)
    assert not caplog.text
    for accents in (True, None):  # An option that is left out is enough.
        given = {**NOTHING_GIVEN, "keep_accents": accents}
        found = normalization.resolve(path, "sentencepiece", given)
        assert found == Normalization(keep_accents=bool(accents))
        assert "de.normalization.json" in caplog.text
    assert caplog.text.count("de.normalization.json beside it") == 1


def test_nothing_is_said_of_released_vocabularies(tmp_path, shared_dir, caplog):
    caplog.set_level(logging.INFO, "absl")
    for name, kind in (
        ("30k-clean.model", "sentencepiece"),
        ("vocab_chinese.txt", "wordpiece"),
    ):
        path = tmp_path / name
        shutil.copy(shared_dir / "data" / "vocab" / name, path)
        normalization.resolve(str(path), kind, NOTHING_GIVEN)
    assert not caplog.text


def test_an_option_may_repeat_the_description_not_contradict(tmp_path):
    description = Normalization(do_lower_case=False, keep_accents=True)
    path = make_vocabulary(tmp_path, description)
    given = {**NOTHING_GIVEN, "keep_accents": True}
    found = normalization.resolve(path, "sentencepiece", given)
    assert found == description
    given = {**NOTHING_GIVEN, "keep_accents": False}
    with refused(
        "`keep_accents=false` contradicts .*de.normalization.json, "
        "which has true.* Leave the option out"
    ):
        normalization.resolve(path, "sentencepiece", given)


@pytest.mark.parametrize(
    "name, value, allowed",
    [
        ("format_version", 2, "1"),
        ("kind", [], '"sentencepiece"'),
        ("keep_accents", None, "true or false"),
        ("do_lower_case", 1, "true or false"),
        ("unicode_form", "NFC", '"NFKD"'),
    ],
)
def test_a_wrong_description_is_refused(tmp_path, name, value, allowed):
    path = make_vocabulary(tmp_path, Normalization())
    place = tmp_path / "de.normalization.json"
    content = {**json.loads(place.read_text()), name: value}
    place.write_text(json.dumps(content))
    message = (
        rf"json has {name} {re.escape(repr(value))}; here it must be {allowed}."
    )
    with refused(message):
        normalization.read(path, "sentencepiece")


@pytest.mark.parametrize(
    ("kind", "option"),
    [("wordpiece", "spm_model_file"), ("sentencepiece", "vocab_file")],
)
def test_a_vocabulary_of_the_other_kind_is_named_as_such(
    tmp_path, kind, option
):
    other = {"wordpiece": "sentencepiece", "sentencepiece": "wordpiece"}[kind]
    path = make_vocabulary(tmp_path, Normalization(kind=other))
    with refused(f"is of {other}.* `{option}`"):
        normalization.read(path, kind)


@pytest.mark.parametrize("folder", ["", "preset/", "/there/preset/"])
def test_a_preset_is_known_by_its_vocabulary(folder):
    paths = keras_hub_rules.paths_beside(
        f"{folder}assets/tokenizer/vocabulary.txt"
    )
    assert paths == [f"{folder}tokenizer.json"]
