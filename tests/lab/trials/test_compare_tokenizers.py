"""lab/trials/compare_tokenizers.py: lines with other ids are counted."""

from albert_tf.text import tokenization
from lab.trials import compare_tokenizers
from tests.conftest import FIXTURES

SPM = str(FIXTURES / "own_text" / "spm.model")
LINES = ["Ivo slept at the mill.", "It is [MASK].", "Café – “x”", "1,050 ropes"]


def test_lines_with_other_ids_are_counted(tmp_path, capsys, monkeypatch):
    (tmp_path / "a.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "b.txt").write_text("Mara\n" * 9)
    settings = compare_tokenizers.CompareOptions(
        vocabulary=tokenization.VocabularyOptions(spm_model_file=SPM),
        input_file=f"{tmp_path}/*.txt",
    )
    compare_tokenizers.run(settings)
    assert capsys.readouterr().out == "| spm.model | 0 | 13 |\n"

    def wrong(tokenizer):
        return lambda lines: [
            [tokenizer.unk_id] if line == "Mara" else tokenizer.encode(line)
            for line in lines
        ]

    monkeypatch.setattr(compare_tokenizers, "_of_tokenizers", wrong)
    compare_tokenizers.run(settings)
    # And the mask, which `encode` takes for text.
    assert capsys.readouterr().out == "| spm.model | 10 | 13 |\n"
