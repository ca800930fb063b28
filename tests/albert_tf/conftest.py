"""Finetuned models that several test files look at.

Many tests here need no TensorFlow, so it is imported when a model is made.
"""

import pytest


@pytest.fixture(scope="session")
def world(tmp_path_factory, tiny_vocab):
    from tests.albert_tf.finetuning import small_runs

    return small_runs.make_world(tmp_path_factory.mktemp("world"), tiny_vocab)


@pytest.fixture(scope="session")
def two_runs(world, tmp_path_factory):
    from albert_tf import run_classifier
    from tests.albert_tf.finetuning import small_runs

    folder = tmp_path_factory.mktemp("runs") / "rte"
    run_classifier.run(small_runs.classifier(world, folder, num_runs=2, seed=7))
    return folder


@pytest.fixture(scope="session")
def new_runs(world, tmp_path_factory):
    """The folder of two runs for RTE with new weights; the second is better."""
    from albert_tf.common import scores
    from albert_tf.model.config import AlbertConfig
    from tests import export_options

    folder = tmp_path_factory.mktemp("runs") / "rte"
    config = AlbertConfig.from_json_file(world.config)
    summed = []
    for number in (1, 2):
        run = folder / f"run_{number}"
        given = {"data_dir": world.glue, "seed": number}
        export_options.make_run(run, config, world.vocabulary, "rte", **given)
        accuracy = {"accuracy": number / 2}
        summed.append(scores.RunScores(str(run), number, 2, accuracy))
    scores.write(str(folder), scores.Summary("rte", "accuracy", tuple(summed)))
    return folder


@pytest.fixture(scope="session")
def mnli(world, tmp_path_factory):
    from albert_tf import run_classifier
    from tests.albert_tf.finetuning import small_runs

    folder = tmp_path_factory.mktemp("runs") / "mnli"
    run_classifier.run(small_runs.classifier(world, folder, "mnli"))
    return folder
