"""The submission to the GLUE leaderboard."""

import shutil
import zipfile

import pytest

from albert_tf import zip_glue_submission
from albert_tf.common import errors
from tests.albert_tf.finetuning import small_runs
from tests.conftest import changed


def test_submission_holds_what_was_predicted(two_runs, mnli, tmp_path):
    (tmp_path / "suite").mkdir()
    for folder in (two_runs, mnli):
        shutil.copytree(folder, tmp_path / "suite" / folder.name)
    settings = zip_glue_submission.ZipOptions(
        input_dir=str(tmp_path / "suite"),
        output_file=str(tmp_path / "glue.zip"),
    )
    with pytest.raises(errors.UserError, match="has no CoLA.tsv, SST-2.tsv"):
        zip_glue_submission.run(settings)
    zip_glue_submission.run(changed(settings, allow_missing=True))
    with zipfile.ZipFile(tmp_path / "glue.zip") as archive:
        assert archive.namelist() == [
            *("MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv", "RTE.tsv")
        ]
        kinds = {entry.compress_type for entry in archive.infolist()}
        assert kinds == {zipfile.ZIP_DEFLATED}
        rows = archive.read("RTE.tsv").decode()
    assert rows == (two_runs / "RTE.tsv").read_text()


def test_submission_has_all_names_of_the_leaderboard():
    assert set(zip_glue_submission.NAMES) == {
        *("CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv"),
        *("MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv", "RTE.tsv", "WNLI.tsv"),
        "AX.tsv",
    }


def test_ambiguous_or_strange_predictions_are_not_packed(tmp_path):
    settings = zip_glue_submission.ZipOptions(
        input_dir=str(tmp_path),
        output_file=str(tmp_path / "glue.zip"),
        allow_missing=True,
    )
    with pytest.raises(errors.UserError, match="has no CoLA.tsv"):
        zip_glue_submission.run(settings)
    small_runs.write(tmp_path / "a/RTE.tsv", "no header\n")
    with pytest.raises(errors.UserError, match="is not a prediction file"):
        zip_glue_submission.run(settings)
    small_runs.write(tmp_path / "b/RTE.tsv", "index\tprediction\n")
    with pytest.raises(errors.UserError, match="RTE.tsv several times"):
        zip_glue_submission.run(settings)
    assert not (tmp_path / "glue.zip").exists()
