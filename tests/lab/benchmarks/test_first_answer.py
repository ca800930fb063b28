"""The table of first answers, of programs that know theirs."""

import sys

from lab.benchmarks import first_answer

PROGRAM = """
class Model:
    def answers(self, entries):
        assert entries == [{"question": "Who?", "context": "Mara"}]
        return [{"embedding": [0.5, NUMBER], "truncated": False}]
"""


def test_each_folder_has_a_row(tmp_path, monkeypatch, capsys):
    for name, number in {"one": "0.25", "other": "0.26"}.items():
        (tmp_path / name).mkdir()
        program = PROGRAM.replace("NUMBER", number)
        (tmp_path / name / "answer.py").write_text(program)
    (tmp_path / "one" / "model").write_bytes(bytes(2_000_000))
    monkeypatch.chdir(tmp_path)
    line = '--line={"question": "Who?", "context": "Mara"}'
    monkeypatch.setattr(sys, "argv", ["", "one", "other", "--rounds=1", line])
    first_answer.main()
    one, other = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in capsys.readouterr().out.splitlines()[2:]
    )
    assert [one[0], one[1], one[5]] == ["one", "2.0", "0e+00"]
    assert [other[0], other[1], other[5]] == ["other", "0.0", "1e-02"]
    assert 0 < float(one[2]) < 60 and 1 < float(one[3]) < 1000
