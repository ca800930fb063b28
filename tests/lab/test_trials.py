"""What the trials write into a folder with files of somebody else."""

import lzma
import os
import subprocess

from tests.conftest import ROOT


def test_a_folder_with_other_files_is_refused(tmp_path):
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "mine.txt").write_text("mine")

    def run(output):
        return subprocess.run(
            ["lab/trials/pretrain_language.sh", "de", "nowhere", str(output)],
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


def test_a_broken_archive_leaves_no_set(tmp_path):
    output, data = tmp_path / "output", tmp_path / "data/de"
    output.mkdir()
    data.mkdir(parents=True)
    (output / ".language").touch()
    (output / "train.txt").touch()  # All before is done.
    whole = lzma.compress(b"text\tlabel\n" * 9)
    (data / "germeval2018_train.tsv.xz").write_bytes(whole[:-9])
    (data / "germeval2018_dev.tsv").write_text("text\tlabel\n")
    done = subprocess.run(
        ["lab/trials/pretrain_language.sh", "de", data.parent, output],
        cwd=ROOT,
        env={**os.environ, "PYTHON": "true"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode and "Unexpected end of input" in done.stderr
    assert not list((output / "germeval2018").glob("*.tsv"))
