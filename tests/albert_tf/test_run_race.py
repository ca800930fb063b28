"""RACE: scores by level, predictions of every question."""

import pytest

from albert_tf import run_race
from albert_tf.common import scores
from tests import export_options, row_files
from tests.albert_tf.finetuning import small_runs
from tests.conftest import LAYER_ATOL


@pytest.fixture(scope="module")
def raced(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "race"
    run_race.run(small_runs.racer(world, folder, train_batch_size=4))
    return folder


def test_race_is_scored_by_level(raced):
    found = scores.read(str(raced)).best.scores
    # 12 questions of middle, 8 of high.
    mean = (12 * found["accuracy_middle"] + 8 * found["accuracy_high"]) / 20
    assert found["accuracy"] == pytest.approx(mean)


def test_race_predicts_articles_of_the_user(world, raced, tmp_path):
    articles = [
        row_files.read(f"{world.race}/test/middle/{n}.txt")[0] for n in range(3)
    ]
    for article in articles:
        del article["answers"]
    own = row_files.write(tmp_path / "own.jsonl", articles)
    out = tmp_path / "out.jsonl"
    ours = export_options.ask(own, out, run_dir=raced, batch_size=5)
    theirs = row_files.read(raced / "test_predictions.jsonl")
    assert len(theirs) == 20
    assert [a["id"] for a in ours] == [a["id"] for a in theirs[:12]]
    for one, other in zip(ours, theirs, strict=False):
        assert one["probabilities"] == pytest.approx(
            other["probabilities"], abs=LAYER_ATOL
        )
