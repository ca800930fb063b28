"""SQuAD from training to ensemble and prediction."""

import json

import pytest

from albert_tf import run_squad
from albert_tf.common import errors, scores
from tests import export_options
from tests.albert_tf.finetuning import small_runs
from tests.conftest import changed


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.0", "1.1"])
def test_squad_from_training_to_ensemble(world, tmp_path, version):
    folder = tmp_path / "runs"
    content = json.loads((world.squad / "dev.json").read_text())
    if version == "1.1":
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                paragraph["qas"] = [
                    q for q in paragraph["qas"] if not q["is_impossible"]
                ]
    small_runs.write(tmp_path / "file.json", json.dumps(content))
    file = str(tmp_path / "file.json")
    settings = small_runs.answerer(
        *(world, folder),
        squad_version=version,
        train_file=file,
        predict_file=file,
        num_runs=2,
        train_step=1,
    )
    run_squad.run(settings)
    best = scores.read(str(folder)).best
    written = json.loads((folder / "predictions.json").read_text())
    # The first dev file of a run is the best one's, also beside the runs.
    inner = json.loads(small_runs.open_text(best.folder, "predictions.json"))
    assert written == inner
    small_runs.average([folder / "run_*"], tmp_path / "both")
    both = json.loads((tmp_path / "both/predictions.json").read_text())
    assert both.keys() == written.keys()
    results = (tmp_path / "both/eval_results.txt").read_text()
    assert "f1 = " in results
    assert (tmp_path / "both/null_odds.json").exists() == (version == "2.0")
    (tmp_path / "file.json").rename(tmp_path / "moved.json")
    with pytest.raises(errors.UserError, match="Say with --predict_file"):
        small_runs.average([folder / "run_*"], tmp_path / "again")
    moved = str(tmp_path / "moved.json")
    small_runs.average(
        [folder / "run_*"], tmp_path / "again", predict_file=moved
    )
    again = json.loads((tmp_path / "again/predictions.json").read_text())
    assert again == both
    file = tmp_path / "own.json"
    check_prediction(world, folder, content, file, version)


def check_prediction(world, folder, content, file, version):
    """From the folder alone, and without the answers."""
    best = scores.read(str(folder)).best
    written = json.loads((folder / "predictions.json").read_text())
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                question.pop("answers", None)
                question.pop("is_impossible", None)
    small_runs.write(file, json.dumps(content))
    lines = file.with_suffix(".jsonl")
    own = export_options.ask(file, lines, run_dir=folder, batch_size=5)
    assert {a["id"]: a["prediction"] for a in own} == written
    threshold = best.scores.get("null_score_diff_threshold", 0.0)
    for answer in own:
        is_answered = answer.get("null_score", -1e9) <= threshold
        first = answer["n_best"][0]["text"]
        assert answer["prediction"] == (first if is_answered else "")
    answering = changed(
        small_runs.answerer(
            world, best.folder, squad_version=version, train_step=1
        ),
        predict_file=str(file),
        do_train=False,
        do_eval=False,
        seed=best.seed,
    )
    run_squad.run(answering)
    again = small_runs.open_text(best.folder, "predictions.json")
    assert json.loads(again) == written


@pytest.mark.slow
def test_squad_runs_with_other_windows_are_no_ensemble(world, tmp_path):
    """Their shapes are the same, but not what their numbers mean."""
    for name, values in (("a", {}), ("b", {"max_query_length": 15})):
        settings = small_runs.answerer(
            world, tmp_path / name, train_step=1, **values
        )
        run_squad.run(changed(settings, do_predict=False))
    with pytest.raises(
        errors.UserError, match="(?s)other windows.*max_query_length was 16"
    ):
        small_runs.average([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
