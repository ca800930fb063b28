"""One run: early stopping, starting weights, precision, replicas."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import run_classifier
from albert_tf.common import preemption, scores
from albert_tf.finetuning import one_run, predictions, saved_outputs
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import classification, from_checkpoint
from albert_tf.tasks.glue import task as glue
from albert_tf.training import distribution
from tests.albert_tf.finetuning import small_runs
from tests.conftest import LOSS_RTOL, changed, make_replicas, refused


def test_a_worker_that_is_lost_ends_the_others_alike(
    world, tmp_path, monkeypatch
):
    """Outside of training, too: the status is that of a run to repeat."""

    def lose(*args):
        raise tf.errors.UnavailableError(None, None, "no answer")

    monkeypatch.setattr(one_run._TaskRun, "run", lose)
    monkeypatch.setattr(distribution.Workers, "is_alone", False)
    with pytest.raises(SystemExit) as ended:
        run_classifier.run(small_runs.classifier(world, tmp_path / "run"))
    assert ended.value.code == preemption.EXIT_CODE


@pytest.mark.slow
def test_an_encoder_with_the_rate_0_stays_as_it_was(world, new_runs, tmp_path):
    settings = changed(
        small_runs.classifier(world, tmp_path / "run"),
        new_head=True,
        init_checkpoint=str(new_runs / "run_1"),
        learning_rate=0.01,
        encoder_learning_rate=0.0,
        do_eval=False,
        do_predict=False,
    )
    run_classifier.run(settings)
    folders = new_runs / "run_1", tmp_path / "run"
    readers = [checkpoint_reader.read(str(f)) for f in folders]
    before, after = (reader.load(list(reader.shapes)) for reader in readers)
    encoder = {name for name in before if name.startswith("bert/")}
    is_changed = {n for n in encoder if not np.array_equal(before[n], after[n])}
    assert len(encoder) > 20
    assert is_changed == {n for n in encoder if "/pooler/" in n}


@pytest.mark.slow
def test_pooling_is_kept_with_the_run(world, new_runs, tmp_path):
    """From a checkpoint of the first token, and then from this run."""
    run, make = small_runs.KINDS["race"]
    folder = tmp_path / "run"
    settings = changed(
        make(world, folder),
        pooling="pair",
        new_head=True,
        init_checkpoint=str(new_runs / "run_1"),
    )
    run(settings)
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    assert config.pooling == "pair"
    shapes = checkpoint_reader.read(str(folder)).shapes
    wanted = [4 * config.hidden_size, config.hidden_size]
    assert shapes["bert/pooler/dense/kernel"] == wanted
    with refused("pooling was 'pair', is now"):
        run(changed(settings, pooling="cls"))
    # Its pooler is kept, so everything is there to predict again.
    predicting = changed(
        settings,
        init_checkpoint=str(folder),
        output_dir=str(tmp_path / "three"),
        do_train=False,
        new_head=False,
    )
    run(predicting)
    for name in ("test_predictions.jsonl", "predict_results.txt"):
        again = (tmp_path / "three" / name).read_text()
        assert again == (folder / name).read_text()
    # Forgotten, it would be a random one.
    with refused("trained with pooling=pair"):
        run(changed(predicting, pooling=None, output_dir=str(tmp_path / "4")))


@pytest.mark.parametrize(
    "values, patience, stuck",
    [
        ([0.5, 0.7, 0.7, 0.6], 2, True),
        ([0.5, 0.7, 0.7, 0.6], 3, False),
        ([0.5, 0.7, 0.6, 0.8], 2, False),
        ([0.5, 0.5], 1, True),
        ([0.5], 1, False),
        ([], 1, False),
        ([0.5, 0.4, 0.3], 0, False),
    ],
)
def test_stuck_means_nothing_better_for_so_long(values, patience, stuck):
    assert one_run.is_stuck(values, patience) == stuck


@pytest.mark.parametrize(
    "predictions, score, labels, is_told",
    [
        (["good"] * 3, 0.4, [0, 1, 0], True),
        (["", "", ""], 50.0, [None] * 3, True),
        ([3.1402, 3.1399, 3.1401], 0.1, [1.0, 3.0, 5.0], True),
        ([1995.61, 1995.6, 1995.62], 0.1, [1950.0, 1990.0, 2020.0], True),
        ([0.9912, 0.9909], 0.1, [None, None], True),
        ([2.0, 2.0], 0.0, [4.0, 4.0], True),
        ([[1], [1]], 0.5, [None, None], True),
        (["good", "bad", "good"], 0.4, [0, 1, 0], False),
        ([3.1, 3.2], 0.1, [1.0, 5.0], False),
        ([1995.6, 1998.2], 0.9, [1995.0, 1999.0], False),
        ([1e-5, 2e-5], 0.9, [1e-5, 3e-5], False),
        ([0.991, 0.993], 0.1, [None, None], False),
        # All labels are alike.
        (["good", "good"], 1.0, [0, 0], False),
        (["", ""], 100.0, [None, None], False),
        (["good"], 0.0, [1], False),
        ([], 0.0, [], False),
    ],
)
def test_one_answer_to_everything_is_told(
    caplog, predictions, score, labels, is_told
):
    answers = [{"id": n, "prediction": p} for n, p in enumerate(predictions)]
    one_run.warn_if_constant("dev", score, answers, labels)
    start = f"dev: all {len(predictions)} examples get the same answer"
    assert [m.startswith(start) for m in caplog.messages] == [True] * is_told


@pytest.mark.slow
@pytest.mark.parametrize("kind, answer", [("rte", 1), ("race", 2)])
def test_a_run_that_answers_one_class_says_so(
    world, tmp_path, monkeypatch, caplog, kind, answer
):
    """As after a rate that is too high; the scores are those of chance."""
    run, make = small_runs.KINDS[kind]
    settings = make(
        world, tmp_path, do_predict=False, train_step=1, warmup_step=0
    )
    predict = one_run._TaskRun.predict

    def constant(self, split, *, save=False):
        logits = predict(self, split, save=save)["logits"]
        return {"logits": logits * 0 + np.eye(4)[answer][: logits.shape[1]]}

    monkeypatch.setattr(one_run._TaskRun, "predict", constant)
    run(settings)
    label = {"rte": "not_entailment", "race": "C"}[kind]
    assert f"examples get the same answer, '{label}'" in caplog.text


@pytest.mark.slow
def test_training_stops_when_nothing_gets_better(world, tmp_path, monkeypatch):
    accuracies = iter([0.5, 0.7, 0.6, 0.7, 0.9])
    remembered = []
    monkeypatch.setattr(
        glue.GlueTask, "remember", lambda _, scores: remembered.append(scores)
    )
    monkeypatch.setattr(
        glue.GlueTask,
        "score",
        lambda *_: {"accuracy": next(accuracies, 0.7), "loss": 1.0},
    )
    settings = small_runs.classifier(
        world,
        tmp_path / "run",
        early_stopping_evaluations=2,
        train_step=10,
        do_predict=False,
    )
    run_classifier.run(settings)
    logged = small_runs.metrics(tmp_path / "run", "eval")
    assert [n["accuracy"] for n in logged] == [0.5, 0.7, 0.6, 0.7]
    assert small_runs.metrics(tmp_path / "run", "train")[-1]["step"] == 4
    # The best checkpoint is that of the second evaluation.
    best = scores.read(str(tmp_path / "run")).best
    assert best.step == 2
    # What it decided, such as thresholds, holds for the predictions.
    assert remembered == [{}, best.scores]
    # The same command has nothing left to do.
    run_classifier.run(settings)
    assert small_runs.metrics(tmp_path / "run", "train")[-1]["step"] == 4
    # With more patience it goes on.
    accuracies = iter([0.9])
    run_classifier.run(changed(settings, early_stopping_evaluations=3))
    assert small_runs.metrics(tmp_path / "run", "train")[-1]["step"] > 4


@pytest.mark.slow
def test_scores_on_other_data_are_not_compared(world, tmp_path, monkeypatch):
    """The file for development is corrected before the run goes on."""
    accuracies = iter([0.9, 0.5])

    def score(*_):
        try:
            return {"accuracy": next(accuracies), "loss": 1.0}
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(glue.GlueTask, "score", score)
    shutil.copytree(world.glue, tmp_path / "glue")
    settings = small_runs.classifier(
        world,
        tmp_path / "run",
        early_stopping_evaluations=3,
        train_step=5,
        do_predict=False,
    )
    settings = changed(settings, data_dir=str(tmp_path / "glue"))
    with pytest.raises(KeyboardInterrupt):
        run_classifier.run(settings)
    path = tmp_path / "glue/RTE/dev.tsv"
    *rows, _ = path.read_text().splitlines(keepends=True)
    path.write_text("".join(rows))
    accuracies = iter([0.6, 0.7, *[0.65] * 9])
    run_classifier.run(settings)
    logged = small_runs.metrics(tmp_path / "run", "eval")
    found = [n["accuracy"] for n in logged]
    assert found[:4] == [0.9, 0.5, 0.6, 0.7]
    assert scores.read(str(tmp_path / "run")).best.step == logged[3]["step"]


@pytest.mark.slow
@pytest.mark.parametrize("new_head", [False, True])
def test_head_that_would_fit_starts_anew_on_demand(
    world, two_runs, tmp_path, new_head
):
    source = str(two_runs / "run_1/model.ckpt-2")
    settings = small_runs.classifier(
        world,
        tmp_path / "run",
        do_eval=False,
        do_predict=False,
        init_checkpoint=source,
        new_head=new_head,
        seed=9,
        train_step=1,
        warmup_step=1,  # So the only update has the rate 0.
    )
    run_classifier.run(settings)
    before = tf.train.load_checkpoint(source)
    after = tf.train.load_checkpoint(str(tmp_path / "run/model.ckpt-1"))
    ending = "/.ATTRIBUTES/VARIABLE_VALUE"
    steps = {
        key.removesuffix(ending): abs(
            after.get_tensor(key) - before.get_tensor(key)
        ).max()
        for key in after.get_variable_to_shape_map()
        if key.startswith("model/")
    }
    # Other draws from a standard deviation of 0.02, and not only an update.
    assert (steps.pop("model/output_weights") > 0.01) == new_head
    bias = after.get_tensor(f"model/output_bias{ending}")
    assert (bias == 0).all() == new_head
    assert (steps.pop("model/output_bias") > 0) == new_head
    assert len(steps) > 10
    assert set(steps.values()) == {0}


@pytest.fixture(scope="module")
def float32_losses(world, tmp_path_factory):
    return train_in("float32", world, tmp_path_factory.mktemp("float32"))


def train_in(precision, world, folder):
    """The losses of a short run whose updates are large enough to count."""
    settings = small_runs.classifier(
        world,
        folder,
        "sts-b",
        do_eval=False,
        do_predict=False,
        train_step=8,
        learning_rate=5e-3,
        precision=precision,
    )
    with pytest.MonkeyPatch.context() as patch:
        small_runs.drop_no_outputs(patch)
        # The mean of the numbers is to be learned.
        patch.setattr(glue.GlueTask, "start_head", lambda *_: None)
        run_classifier.run(settings)
    return [line["loss"] for line in small_runs.metrics(folder, "train")]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_finetuning_in_low_precision_follows_float32(
    world, float32_losses, tmp_path, precision
):
    losses = train_in(precision, world, tmp_path)
    assert losses != float32_losses
    assert losses == pytest.approx(float32_losses, rel=1e-2)
    assert min(float32_losses) < max(float32_losses) / 2
    reader = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-8"))
    kinds = reader.get_variable_to_dtype_map()
    weights = {kinds[key] for key in kinds if key.startswith("model/")}
    assert weights == {tf.float32}


@pytest.mark.slow
def test_the_second_of_two_runs_is_that_of_its_seed(world, two_runs, tmp_path):
    """Weights, dropout and the order of the examples."""
    run_classifier.run(small_runs.classifier(world, tmp_path / "one", seed=8))
    one, second = (
        [line["loss"] for line in small_runs.metrics(folder, "train")]
        for folder in (tmp_path / "one", two_runs / "run_2")
    )
    assert one == second
    assert len(one) > 1


@pytest.mark.slow
def test_replicas_and_batches_change_neither_losses_nor_scores(
    world, tmp_path, monkeypatch
):
    """12 dev records: both sizes leave a partial last batch."""
    # Each replica draws its own dropout, and that of GLUE has no option.
    small_runs.drop_no_outputs(monkeypatch)
    run, make = small_runs.KINDS["rte"]
    found = []
    for number, (replicas, size) in enumerate(((1, 9), (2, 8))):
        if replicas > 1:
            monkeypatch.setattr(
                distribution, "make_strategy", lambda _: make_replicas()
            )
        folder = tmp_path / str(number)
        settings = make(
            world,
            folder,
            train_step=3,
            do_predict=False,
            eval_batch_size=size,
        )
        run(settings)
        outputs = saved_outputs.load(str(folder), "dev").outputs
        count = len(next(iter(outputs.values())))
        assert count > 10
        assert count % size
        losses = [line["loss"] for line in small_runs.metrics(folder, "train")]
        assert len(losses) == 3
        found.append((losses, scores.read(str(folder)).best.scores))
    (losses, numbers), (other_losses, other_numbers) = found
    assert other_losses == pytest.approx(losses, rel=LOSS_RTOL)
    assert other_numbers == pytest.approx(numbers, rel=LOSS_RTOL)


@pytest.mark.slow
def test_a_deepened_model_is_trained_at_several_depths(
    world, new_runs, tmp_path
):
    """The same layer, applied more often; each depth has its own head."""
    folder = tmp_path / "run"
    settings = changed(
        small_runs.classifier(world, folder),
        num_hidden_layers=3,
        init_checkpoint=str(new_runs / "run_1"),
        init_shallower=True,
        new_head=True,
        exit_layers="1,2",
        exit_heads=True,
    )
    other = changed(
        settings, init_shallower=False, output_dir=str(tmp_path / "other")
    )
    with refused("add `init_shallower`"):
        run_classifier.run(other)
    run_classifier.run(settings)
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    assert config.num_hidden_layers == 3
    shapes = checkpoint_reader.read(str(folder)).shapes
    heads = {name: shape for name, shape in shapes.items() if "exit_" in name}
    assert heads.keys() == {
        f"exit_{depth}/output_{kind}"
        for depth in (1, 2)
        for kind in ("weights", "bias")
    }
    assert "| exit_layers | 1,2 |" in (folder / "run_card.md").read_text()
    with refused("exit_layers was '1,2', is now"):
        run_classifier.run(changed(settings, exit_layers="2"))
    before = (folder / "test_results.tsv").read_text()
    run_classifier.run(changed(settings, do_train=False))
    assert (folder / "test_results.tsv").read_text() == before
    # Other programs need the head of the last layer alone.
    predictor = predictions.RunPredictor(str(folder), None, 8)
    predictor.load()
    checkpoint = checkpoint_reader.read(str(folder))
    converted = from_checkpoint.make_untrained_model(config, checkpoint)
    assert type(converted) is classification.AlbertClassifier


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("squad", {"exit_layers": "1"}, "`exit_layers=1` is not for squad"),
        ("race", {"exit_layers": "1"}, "`exit_layers=1` is not for race"),
        ("rte", {"exit_layers": "2"}, "`exit_layers=2` must be numbers from 1"),
    ],
)
def test_depths_that_do_not_fit_are_refused(
    world, tmp_path, kind, changes, message
):
    run, make = small_runs.KINDS[kind]
    with refused(message):
        run(changed(make(world, tmp_path / "run"), **changes))
    assert not (tmp_path / "run").exists()
