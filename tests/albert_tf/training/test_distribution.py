"""Devices: which batches and options they refuse."""

import json
import os
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.common import preemption
from albert_tf.training import distribution, training_options
from tests.conftest import make_replicas, refused


@pytest.mark.parametrize(
    ("batch_size", "parts", "message"),
    [
        (
            0,
            1,
            r"`train_batch_size=0` is not .* 2 replica\(s\) of this run\. It",
        ),
        (-2, 1, "`train_batch_size=-2` is not .* of the 2 replica"),
        (3, 1, "`train_batch_size=3` is not .* of the 2 replica"),
        (4, 3, "times `gradient_accumulation_steps=3`. It"),
    ],
)
def test_batch_must_be_a_multiple_of_the_replicas(batch_size, parts, message):
    strategy = make_replicas()
    with refused(message):
        distribution.check_batch(
            strategy, batch_size, "train_batch_size", parts
        )
    distribution.check_batch(strategy, 4, "train_batch_size")
    distribution.check_batch(strategy, 12, "train_batch_size", 3)


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_devices_of_one_machine(name):
    options = training_options.DistributionOptions(distribution_strategy=name)
    strategy = distribution.make_strategy(options)
    kind, count = tf.distribute.OneDeviceStrategy, 1
    if name == "mirrored":
        kind = tf.distribute.MirroredStrategy
        devices = tf.config.list_logical_devices("GPU") or (
            tf.config.list_logical_devices("CPU")  # Two; see conftest.
        )
        count = len(devices)
    assert isinstance(strategy, kind)
    assert strategy.num_replicas_in_sync == count
    assert distribution.is_chief(strategy)


@pytest.fixture
def tpu(monkeypatch):
    """A TPU that is not there; holds what was called, and with what."""
    calls = []

    def patch(module, name, result=None):
        def call(*arguments, **options):
            calls.append((name, *arguments, *([options] if options else [])))
            return result

        monkeypatch.setattr(module, name, call)

    patch(tf.distribute.cluster_resolver, "TPUClusterResolver", "resolver")
    patch(tf.config, "experimental_connect_to_cluster")
    patch(tf.tpu.experimental, "initialize_tpu_system")
    patch(tf.distribute, "TPUStrategy", "strategy")
    return calls


@pytest.mark.parametrize("name", ["local", "my-tpu"])
@pytest.mark.parametrize(
    "option", [{"use_tpu": True}, {"distribution_strategy": "tpu"}]
)
def test_a_tpu_is_found_by_name_zone_and_project(tpu, name, option):
    options = training_options.DistributionOptions(
        tpu_name=name, tpu_zone="z", gcp_project="p", **option
    )
    assert distribution.make_strategy(options) == "strategy"
    place = {"tpu": name, "zone": "z", "project": "p"}
    expected = [
        ("TPUClusterResolver", place),
        ("experimental_connect_to_cluster", "resolver"),
        ("initialize_tpu_system", "resolver"),
        ("TPUStrategy", "resolver"),
    ]
    if name == "local":  # The process runs on it already.
        del expected[1]
    assert tpu == expected


@pytest.mark.parametrize(
    ("module", "function", "error"),
    [
        (tf.distribute.cluster_resolver, "TPUClusterResolver", ValueError),
        (
            tf.config,
            "experimental_connect_to_cluster",
            tf.errors.UnavailableError,
        ),
        (tf.tpu.experimental, "initialize_tpu_system", tf.errors.NotFoundError),
    ],
)
def test_a_tpu_out_of_reach_is_an_error(
    tpu, monkeypatch, module, function, error
):
    def fail(*_, **__):
        nodes = () if error is ValueError else (None, None)
        raise error(*nodes, "no such TPU")

    monkeypatch.setattr(module, function, fail)
    options = training_options.DistributionOptions(
        use_tpu=True, tpu_name="mine"
    )
    with refused(
        "`tpu_name=mine` cannot be reached: no such TPU.*`tpu_zone`",
    ):
        distribution.make_strategy(options)
    assert "TPUStrategy" not in [call[0] for call in tpu]


def test_one_process_is_the_chief_and_agrees_with_itself(monkeypatch):
    for strategy in (make_replicas(2), tf.distribute.get_strategy()):
        assert distribution.is_chief(strategy)
        assert distribution.worker_folder(strategy, "x") == "x"
        workers = distribution.Workers(strategy)
        assert workers.gather(1.0, 2.5).tolist() == [[1.0, 2.5]]
        assert workers.chief_value(True) and not workers.chief_value(False)
    # Another process says the opposite.
    monkeypatch.setattr(workers, "gather", lambda x: np.array([[x], [1 - x]]))
    assert workers.chief_value(True) and not workers.chief_value(False)
    assert not workers.all_agree(True) and not workers.all_agree(False)


def test_several_workers_exchange_numbers_and_end_together(monkeypatch):
    workers = distribution.Workers(make_replicas(2))
    lost = tf.errors.UnavailableError(None, None, "no answer")
    with pytest.raises(tf.errors.UnavailableError), workers.ending_together():
        raise lost
    monkeypatch.setattr(distribution.Workers, "is_alone", False)
    assert workers.gather(1.0, 2.5).tolist() == [[1.0, 2.5]] * 2
    with pytest.raises(SystemExit) as ended, workers.ending_together():
        raise lost
    assert ended.value.code == preemption.EXIT_CODE


def test_workers_meet_at_their_hosts(monkeypatch):
    def make(**more):
        options = training_options.DistributionOptions(
            distribution_strategy="multi_worker_mirrored", **more
        )
        return distribution.make_strategy(options)

    monkeypatch.delenv("TF_CONFIG", raising=False)
    with refused("needs `worker_hosts` and"):
        make()
    given = '{"cluster": {"worker": ["a:1"]}, "task": {"type": "chief"}}'
    monkeypatch.setenv("TF_CONFIG", given)
    monkeypatch.setattr(
        tf.distribute, "MultiWorkerMirroredStrategy", lambda: "strategy"
    )
    assert make() == "strategy"
    assert os.environ["TF_CONFIG"] == given
    assert make(worker_hosts="a:1, b:2,c:3", task_index=2) == "strategy"
    assert json.loads(os.environ["TF_CONFIG"]) == {
        "cluster": {"worker": ["a:1", "b:2", "c:3"]},
        "task": {"type": "worker", "index": 2},
    }


CLUSTER = '"cluster": {"worker": ["localhost:1"]}'


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("{broken", "unexpected character"),
        ("[]", "it needs `cluster` and `task`"),
        ("{}", "it needs `cluster` and `task`"),
        (f"{{{CLUSTER}}}", "it needs `cluster` and `task`"),
        (
            f'{{{CLUSTER}, "task": {{"type": "worker", "index": 3}}}}',
            "`task_id` 3 exceeds",
        ),
        (
            '{"cluster": {"worker": "a:1"}, "task": {"type": "worker"}}',
            "must be a list",
        ),
        *(
            (
                f'{{"cluster": {{"worker": ["a:1"], "{role}": ["b:1"]}}, '
                f'"task": {{"type": "{role}", "index": 0}}}}',
                f"type {role!r}, not one of chief, worker.*follow_checkpoints",
            )
            for role in ("evaluator", "ps", "Worker")
        ),
        (f'{{{CLUSTER}, "task": "worker 0"}}', "type 'worker 0', not one of"),
    ],
)
def test_a_damaged_description_of_workers_is_refused(
    monkeypatch, given, reason
):
    monkeypatch.setenv("TF_CONFIG", given)
    options = training_options.DistributionOptions(
        distribution_strategy="multi_worker_mirrored"
    )
    with refused(f"TF_CONFIG=.*: .*{reason}"):
        distribution.make_strategy(options)


@pytest.mark.parametrize(
    ("task", "cluster", "number"),
    [
        (("worker", 0), {"worker": ["a", "b"]}, 0),
        (("worker", 1), {"worker": ["a", "b"]}, 1),
        (("worker", 1), {"chief": ["c"], "worker": ["a", "b"]}, 2),
        (("chief", 0), {"chief": ["c"], "worker": ["a", "b"]}, 0),
        ((None, None), {}, 0),
    ],
)
def test_only_the_chief_writes_into_the_folder(task, cluster, number):
    spec = types.SimpleNamespace(as_dict=lambda: cluster)
    resolver = types.SimpleNamespace(
        task_type=task[0], task_id=task[1], cluster_spec=lambda: spec
    )
    strategy = types.SimpleNamespace(cluster_resolver=resolver)
    assert distribution.is_chief(strategy) == (number == 0)
    folder = f"x/worker_{number}" if number else "x"
    assert distribution.worker_folder(strategy, "x") == folder
