"""tools/compare_tokenizers.py: lines with other ids are counted."""

import pytest

from albert_tf.common import errors
from albert_tf.text import tokenization
from tests.conftest import FIXTURES, load_tool

SPM = str(FIXTURES / "own_text" / "spm.model")
LINES = ["Ivo slept at the mill.", "It is [MASK].", "Café – “x”", "1,050 ropes"]


@pytest.fixture(scope="module")
def tool():
    return load_tool("compare_tokenizers")


def compare(tool, tmp_path, capsys, **changes):
    (tmp_path / "a.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "b.txt").write_text("Mara\n" * 9)
    tool.run(
        tool.CompareOptions(
            vocabulary=tokenization.VocabularyOptions(spm_model_file=SPM),
            input_file=f"{tmp_path}/*.txt",
            **changes,
        )
    )
    return capsys.readouterr().out


def test_all_lines_are_compared(tool, tmp_path, capsys):
    assert compare(tool, tmp_path, capsys) == "| spm.model | 0 | 13 |\n"


def test_some_lines_of_each_file_are_compared(tool, tmp_path, capsys):
    found = compare(tool, tmp_path, capsys, lines_per_file=2)
    assert found == "| spm.model | 0 | 4 |\n"


def test_lines_with_other_ids_are_counted(tool, tmp_path, capsys, monkeypatch):
    def wrong(tokenizer):
        return lambda lines: [
            [tokenizer.unk_id] if line == "Mara" else tokenizer.encode(line)
            for line in lines
        ]

    monkeypatch.setattr(tool, "_of_tokenizers", wrong)
    # And the mask, which `encode` takes for text.
    assert compare(tool, tmp_path, capsys) == "| spm.model | 10 | 13 |\n"


def test_missing_text_is_refused(tool, tmp_path):
    with pytest.raises(errors.UserError, match="input_file"):
        tool.run(
            tool.CompareOptions(
                vocabulary=tokenization.VocabularyOptions(spm_model_file=SPM),
                input_file=f"{tmp_path}/*.txt",
            )
        )
