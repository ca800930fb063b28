"""The description of how text is normalized for a vocabulary."""

import json
import logging
import shutil

import pytest

from albert_tf.common import errors
from albert_tf.text import normalization
from albert_tf.text.normalization import Normalization

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
    "kind, lower, keep, form",
    [
        ("sentencepiece", True, False, "NFKD"),
        ("sentencepiece", False, True, "NFKC"),
        ("wordpiece", True, False, "NFD"),
        ("wordpiece", True, True, "none"),
        ("wordpiece", False, False, "none"),
    ],
)
def test_unicode_form(kind, lower, keep, form):
    assert Normalization(lower, keep, kind=kind).unicode_form == form


def test_original_rule_is_assumed_and_said_once(tmp_path, caplog):
    path = make_vocabulary(tmp_path)
    caplog.set_level(logging.INFO, "absl")
    for _ in range(2):
        found = normalization.resolve(path, "sentencepiece", NOTHING_GIVEN)
        assert found == Normalization()
    assert caplog.text.count("de.normalization.json beside it") == 1


def test_nothing_is_said_when_all_options_are_given(tmp_path, caplog):
    path = make_vocabulary(tmp_path)
    caplog.set_level(logging.INFO, "absl")
    given = {**Normalization().settings, "do_lower_case": False}
    found = normalization.resolve(path, "sentencepiece", given)
    assert found == Normalization(do_lower_case=False)
    assert not caplog.text


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
    with pytest.raises(
        errors.UserError,
        match="`keep_accents=false` contradicts .*de.normalization.json, "
        "which has true.* Leave the option out",
    ):
        normalization.resolve(path, "sentencepiece", given)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"format_version": 2}, "has format_version 2; this program reads 1"),
        ({"kind": "wordpiece"}, "is about .* 'wordpiece', not sentencepiece"),
        ({"keep_accents": None}, "has keep_accents None; it must be"),
        ({"unicode_form": "NFC"}, "has unicode_form 'NFC'; .* has NFKD"),
    ],
)
def test_a_wrong_description_is_refused(tmp_path, change, message):
    path = make_vocabulary(tmp_path, Normalization())
    place = tmp_path / "de.normalization.json"
    content = {**json.loads(place.read_text()), **change}
    place.write_text(json.dumps(content))
    with pytest.raises(errors.UserError, match=message):
        normalization.read(path, "sentencepiece")
