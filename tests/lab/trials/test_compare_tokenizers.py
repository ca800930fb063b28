"""lab/trials/compare_tokenizers.py: lines with other ids are counted."""

from albert_tf.text import tokenization
from lab.trials import compare_tokenizers
from tests.conftest import FIXTURES

SPM = str(FIXTURES / "own_text" / "spm.model")
LINES = ["Ivo slept at the mill.", "It is [MASK].", "Café – “x”", "1,050 ropes"]


def compare(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "b.txt").write_text("Mara\n" * 9)
    compare_tokenizers.run(
        compare_tokenizers.CompareOptions(
            vocabulary=tokenization.VocabularyOptions(spm_model_file=SPM),
            input_file=f"{tmp_path}/*.txt",
        )
    )
    return capsys.readouterr().out


def test_all_lines_are_compared(tmp_path, capsys):
    assert compare(tmp_path, capsys) == "| spm.model | 0 | 13 |\n"


def test_lines_with_other_ids_are_counted(tmp_path, capsys, monkeypatch):
    def wrong(tokenizer):
        return lambda lines: [
            [tokenizer.unk_id] if line == "Mara" else tokenizer.encode(line)
            for line in lines
        ]

    monkeypatch.setattr(compare_tokenizers, "_of_tokenizers", wrong)
    # And the mask, which `encode` takes for text.
    assert compare(tmp_path, capsys) == "| spm.model | 10 | 13 |\n"
