"""What every finetuned run must answer, exported in each form."""

import json

import pytest

from tests import export_options
from tests.albert_tf.tasks import contract
from tests.conftest import python, refused


def answers_beside(folder, texts):
    """Those of the program in an export of ids."""
    done = python(folder / "answer.py", texts, cwd=folder)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "form"),
    [
        (n, form)
        for n, case in contract.CASES.items()
        for form in case.forms.split()
    ],
    indirect=["run"],
)
def test_exports_answer_alike(run, form, answers, tmp_path):
    served = tmp_path / "served"
    given = {"run_dir": run.folder, "format": form, **run.own_module}
    if run.case.not_hub == contract.NO_EXPORT:
        with refused(contract.NO_EXPORT):
            export_options.exported(served, **given)
        return
    report = export_options.exported(served, eval_file=run.labelled, **given)
    scored = report["scores_in_float32"]
    assert report["scores"] == pytest.approx(
        scored, rel=1e-4, abs=contract.FLOAT_ATOL
    )
    if form == "saved_model":
        found = tmp_path / "found.jsonl"
        found = export_options.ask(run.texts, found, saved_model=served)
    else:
        found = answers_beside(served, run.texts)
    contract.assert_alike(found, answers)
