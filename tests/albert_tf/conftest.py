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
def mnli(world, tmp_path_factory):
    from albert_tf import run_classifier
    from tests.albert_tf.finetuning import small_runs

    folder = tmp_path_factory.mktemp("runs") / "mnli"
    run_classifier.run(small_runs.classifier(world, folder, "mnli"))
    return folder
