"""What lab/benchmarks/packed_rows.py refuses before anything runs."""

import pytest

from lab.benchmarks import packed_rows


def arguments(**changes):
    given = {
        "input_file": __file__,
        "albert_config_file": __file__,
        **changes,
    }
    return [f"--{name}={value}" for name, value in given.items()]


def test_kinds_of_rows_are_divided_at_commas():
    settings = packed_rows.read_settings(arguments(rows="packed,padded"))
    assert settings.rows == ["packed", "padded"]
    settings = packed_rows.read_settings(arguments())
    assert settings.rows == ["padded", "grouped", "packed"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": "no/file"}, "--input_file=no/file does not exist."),
        ({"rows": "packed,packet"}, "--rows: there is no packet. There are"),
        ({"rounds": "0"}, "--rounds=0 is less than 1."),
        ({"precision": "int8"}, "--precision: invalid choice: 'int8'"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes, message, capsys):
    with pytest.raises(SystemExit) as end:
        packed_rows.read_settings(arguments(**changes))
    assert end.value.code == 2
    assert message in capsys.readouterr().err
