"""Exports that are cut at a depth, or stop where they are sure."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import export
from tests.albert_tf.serving import saved_services
from tests.conftest import LAYER_ATOL, refused, tiny_config
from tests.export_options import make_options, make_run, read_report


@pytest.fixture
def run_of(tmp_path, tiny_vocab):
    """Makes a run that was trained at two depths of three."""

    def make(task="sst-2", **values):
        config = tiny_config(num_hidden_layers=3, **values)
        folder = tmp_path / "run"
        exits = {"exit_layers": "2", "exit_heads": True}
        model = make_run(folder, config, tiny_vocab, task, **exits)
        model.add_exits((2,), own_heads=True)
        tf.train.Checkpoint(model=model).write(f"{folder}/model.ckpt-best")
        return model

    return make


def options(tmp_path, **changes):
    return make_options(
        run_dir=str(tmp_path / "run"),
        export_dir=str(tmp_path / "exported"),
        **changes,
    )


DIFFERENT = {"share": "none"}


@pytest.mark.parametrize(
    ("task", "config_of", "changes", "message"),
    [
        ("sst-2", DIFFERENT, {"depth": 4}, "2 and 3 layers, not after 4,"),
        ("sts-b", {}, {"adaptive": True, "patience": 1}, "`adaptive` is for"),
        (
            "sst-2",
            {},
            {"adaptive": True, "entropy": 0.1, "task": "embedding"},
            "`adaptive` is for",
        ),
        (
            "sst-2",
            DIFFERENT,
            {"adaptive": True, "patience": 1, "format": "onnx"},
            "one layer again and again; those of this one differ",
        ),
        (
            "sst-2",
            {"inner_group_num": 2},
            {"adaptive": True, "patience": 1, "format": "onnx"},
            "one layer again and again; those of this one differ",
        ),
    ],
)
def test_depths_that_do_not_fit_are_refused(
    tmp_path, run_of, task, config_of, changes, message
):
    run_of(task, **config_of)
    with refused(message):
        export.run(options(tmp_path, **changes))
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize(("depth", "is_trained"), [(2, True), (5, False)])
def test_a_model_is_cut_and_a_depth_that_is_new_to_it_is_told(
    tmp_path, run_of, caplog, depth, is_trained
):
    model = run_of()
    export.run(options(tmp_path, depth=depth, with_text=False))
    told = f"2 and 3 layers, not after {depth}: expect a lower score"
    assert (told in caplog.text) != is_trained
    ids = tf.constant([[2, 7, 8, 3]])
    ask = tf.saved_model.load(str(tmp_path / "exported")).signatures["tokens"]
    found = ask(
        input_ids=ids,
        input_mask=tf.ones_like(ids),
        segment_ids=tf.zeros_like(ids),
    )
    model.encoder.depth = depth
    expected = model({"input_ids": ids})["logits"]
    np.testing.assert_allclose(found["logits"], expected, atol=LAYER_ATOL)


@pytest.mark.slow
def test_an_adaptive_export_answers_with_the_layers_it_used(
    tmp_path, run_of, capsys
):
    """Its report has the score and time of every depth and patience."""
    model = run_of()
    saved_services.spread(model, 0.5)
    best = str(tmp_path / "run/model.ckpt-best")
    tf.train.Checkpoint(model=model).write(best)
    texts = ["it rains", "the ferry waits", "a boat", "we stay here now"] * 9
    rows = [f"{text}\t{n % 2}" for n, text in enumerate(texts)]
    (tmp_path / "dev.tsv").write_text("\n".join(["sentence\tlabel", *rows, ""]))
    settings = {"eval_file": str(tmp_path / "dev.tsv"), "adaptive": True}
    export.run(options(tmp_path, **settings, patience=1, entropy=0.0))
    ask = tf.saved_model.load(str(tmp_path / "exported")).signatures
    answer = ask["serving_default"](text=tf.constant(texts[:4]))
    assert set(answer["layers"].numpy()) <= {2, 3}
    assert set(ask["tokens"].structured_outputs) == {
        *("logits", "probabilities", "layers")
    }
    report = read_report(tmp_path / "run")
    kinds = [(p["kind"], p["value"]) for p in report["depths"]]
    assert kinds == [
        ("depth", 2),
        ("depth", 3),
        ("patience", 1),
        ("entropy", 0.0),
    ]
    scores = {p["kind"]: p["score"] for p in report["depths"]}
    # The second of two exits is the first that can agree, and the last one.
    assert scores["patience"] == scores["depth"] == scores["entropy"]
    assert scores["depth"] == report["scores"]["accuracy"]
    table = (tmp_path / "exported/depths.md").read_text()
    assert "| patience 1 | 3.00 |" in table
    assert table in capsys.readouterr().out
