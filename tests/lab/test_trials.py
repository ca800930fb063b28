"""What the trials write into a folder with files of somebody else."""

import json
import os
import subprocess

import pytest

from albert_tf.common import errors
from lab.trials import language_tasks
from tests.conftest import ROOT

PAIR = {"sentence1": "a", "sentence2": "b", "label": "neutral"}


@pytest.mark.parametrize(
    ("script", "words"),
    [("pretrain_language.sh", ["de"]), ("pretrain_on_real_text.sh", [])],
)
def test_a_folder_with_other_files_is_refused(tmp_path, script, words):
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "mine.txt").write_text("mine")

    def run(output):
        return subprocess.run(
            [f"lab/trials/{script}", *words, "nowhere", str(output)],
            cwd=ROOT,
            env={**os.environ, "PYTHON": "false"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    done = run(tmp_path)
    assert (done.returncode, documents.exists()) == (2, True)
    assert f"OUTPUT={tmp_path} holds files of something else" in done.stderr
    assert [path.name for path in tmp_path.rglob("*.txt")] == ["mine.txt"]
    # A new one fails later, and so it does when it is continued.
    for _ in range(2):
        done = run(tmp_path / "new")
        assert done.returncode and "OUTPUT" not in done.stderr


def test_only_own_tables_are_replaced(tmp_path):
    for name, pattern in language_tasks._FILES.items():
        for split in language_tasks.SPLITS:
            path = tmp_path / "data" / pattern.format(split)
            path.parent.mkdir(parents=True, exist_ok=True)
            is_tweet = name == "germeval2018"
            line = "a\tOTHER\tx" if is_tweet else json.dumps(PAIR)
            path.write_text(f"{line}\n")
    folders = f"{tmp_path}/data", f"{tmp_path}/out"
    settings = language_tasks.LanguageOptions(*folders)
    language_tasks.run(settings)
    language_tasks.run(settings)  # After an interruption.
    table = tmp_path / "out" / "jnli" / "dev.tsv"
    assert table.read_text() == "text\ttext_pair\tlabel\na\tb\tneutral\n"
    table.write_text("mine")
    with pytest.raises(errors.UserError, match="dev.tsv exists"):
        language_tasks.run(settings)
    assert table.read_text() == "mine"
