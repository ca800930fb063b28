"""What the comparisons share: what they refuse before anything runs."""

import argparse

import pytest

from lab.benchmarks import side_by_side

NAMES = ("albert_tf_float32", "hugging_face_float32")


def check(**given):
    settings = argparse.Namespace(
        **{
            "implementations": ",".join(NAMES),
            "base": NAMES[0],
            "rounds": 1,
            **given,
        }
    )
    side_by_side.check(argparse.ArgumentParser(), settings, NAMES, ["rounds"])
    return settings.implementations


def test_implementations_are_divided_at_commas():
    assert check() == list(NAMES)
    assert check(implementations=NAMES[0]) == [NAMES[0]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"implementations": "albert"},
            "--implementations: there is no albert.",
        ),
        ({"rounds": 0}, "--rounds=0 is less than 1."),
        (
            {"implementations": NAMES[0], "base": NAMES[1]},
            f"--base={NAMES[1]} is not among --implementations.",
        ),
        *(
            ({name: "no/file"}, f"--{name}=no/file does not exist.")
            for name in ("albert_config_file", "data_dir", "spm_model_file")
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(given, message, capsys):
    with pytest.raises(SystemExit) as end:
        check(**given)
    assert end.value.code == 2
    assert message in capsys.readouterr().err
