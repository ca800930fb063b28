"""The command: parts, resumption, files, mistakes."""

import json
import pathlib

import pytest

from albert_tf.common import errors, options
from lab.measure import evaluate, report
from tests.lab.measure.conftest import write_model


def pair(uid, good, bad):
    return json.dumps(
        {
            "sentence_good": good,
            "sentence_bad": bad,
            "field": "syntax",
            "linguistics_term": "order",
            "UID": uid,
        }
    )


@pytest.fixture
def settings(tmp_path, model_dir):
    (tmp_path / "text.txt").write_text(
        "Mara gave Ivo the lamp.\nIvo took it home.\n\nThe boat is old.\n"
    )
    (tmp_path / "pairs.jsonl").write_text(
        pair("a", "Ivo sleeps.", "Sleeps Ivo.")
        + "\n"
        + pair("b", "The lamp", "the lamp")
    )
    return evaluate.EvaluateOptions(
        init_checkpoint=str(model_dir),
        output_dir=str(tmp_path / "out"),
        held_out_file=str(tmp_path / "text.txt"),
        minimal_pairs_file=str(tmp_path / "pairs.jsonl"),
        parts="cost,held_out,minimal_pairs",
        window_words=4,
    )


def change(settings, **changes):
    values = {**options.to_dict(settings), **changes}
    return options.from_dict(evaluate.EvaluateOptions, values)


def read_table(settings):
    return (pathlib.Path(settings.output_dir) / "measure.md").read_text()


def test_parts_are_written_and_not_measured_again(
    settings, monkeypatch, capsys
):
    asked = []
    inner = evaluate.held_out.measure

    def measure(masked_lm, windows):
        asked.append("held_out")
        return inner(masked_lm, windows)

    def fail(masked_lm, sentences):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluate.held_out, "measure", measure)
    with monkeypatch.context() as patch:
        patch.setattr(evaluate.minimal_pairs, "pseudo_log_likelihoods", fail)
        with pytest.raises(KeyboardInterrupt):
            evaluate.run(settings)
    assert list(report.read(settings.output_dir)) == ["cost", "held_out"]
    evaluate.run(settings)
    assert asked == ["held_out"]
    parts = report.read(settings.output_dir)
    assert list(parts) == ["cost", "held_out", "minimal_pairs"]
    assert parts["held_out"]["results"]["windows"] == 3
    # Of the second pair, both sentences have the same pieces.
    assert parts["minimal_pairs"]["results"]["paradigms"]["b"] == 50.0
    assert parts["minimal_pairs"]["results"]["ties"] == 1
    table = read_table(settings)
    assert capsys.readouterr().out == table
    assert "| 2 minimal pairs, 1 ties | % right |" in table
    evaluate.run(change(settings, overwrite=True))
    assert asked == ["held_out"] * 2
    assert report.read(settings.output_dir) == parts


def test_other_settings_and_weights_are_refused(settings, tmp_path, tiny_vocab):
    settings = change(settings, parts="held_out")
    evaluate.run(settings)
    with pytest.raises(errors.UserError, match="windows was 2000, is now 1"):
        evaluate.run(change(settings, windows=1))
    other = tmp_path / "other"
    other.mkdir()
    write_model(other, tiny_vocab, seed=2)
    changed = change(settings, init_checkpoint=str(other))
    with pytest.raises(errors.UserError, match="weights was "):
        evaluate.run(changed)
    before = report.read(settings.output_dir)["held_out"]["results"]
    evaluate.run(change(changed, overwrite=True))
    after = report.read(settings.output_dir)["held_out"]["results"]
    assert before["bits_per_byte"] != after["bits_per_byte"]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"parts": "cost,x"}, "`parts=cost,x` has 'x'"),
        ({"held_out_file": None}, "needs `held_out_file`"),
        ({"minimal_pairs_file": None}, "needs `minimal_pairs_file`"),
        ({"parts": "finetuning"}, "needs `data_dir`"),
        ({"window_words": 1}, "window_words"),
        (
            {"parts": "finetuning", "data_dir": "x", "tasks": "sst"},
            "`tasks=sst` has 'sst'",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(settings, changes, message):
    with pytest.raises(errors.UserError, match=message):
        change(settings, **changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"held_out_file": "none.txt"}, "`held_out_file=none.txt` is not a"),
        ({"minimal_pairs_file": "none"}, "`minimal_pairs_file=none` matches"),
        ({"init_checkpoint": "none"}, "=none` is neither a folder nor"),
        ({"spm_model_file": "none"}, "`spm_model_file=none` is not a file"),
        ({"albert_config_file": "none"}, "`albert_config_file=none` is not"),
        ({"window_words": 50}, "no document of 50 words"),
        (
            {"parts": "finetuning", "data_dir": "none"},
            "--data_dir has no train.tsv",
        ),
    ],
)
def test_what_is_missing_shows_before_a_model_is_loaded(
    settings, monkeypatch, changes, message
):
    def load(source):
        raise AssertionError("A model is loaded.")

    monkeypatch.setattr(evaluate.scoring.Source, "load", load)
    with pytest.raises(errors.UserError, match=message):
        evaluate.run(change(settings, **changes))


def test_text_that_is_not_utf8_is_refused(settings):
    pathlib.Path(settings.held_out_file).write_bytes(b"caf\xe9 " * 40)
    with pytest.raises(errors.UserError, match="is not UTF-8"):
        evaluate.run(settings)


def test_wordpiece_and_finetuning_do_not_go_together(settings, tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    changed = change(
        settings,
        parts="finetuning",
        data_dir=str(tmp_path),
        vocab_file=str(tmp_path / "vocab.txt"),
    )
    with pytest.raises(errors.UserError, match="is a WordPiece vocabulary"):
        evaluate.run(changed)


def test_finetuning_gets_the_model_its_vocabulary_and_the_rates(
    settings, monkeypatch, model_dir
):
    given = []

    def finish(settings):
        given.append(settings)
        return [
            {
                "task": "rte",
                "start": start,
                "seed": 1,
                "value": 0.5,
                "metric": "accuracy",
                "baseline": 0.5,
                "steps": 3,
            }
            for start in ("random", "pretrained")
        ]

    monkeypatch.setattr(evaluate.finetuning_tool, "prepare", lambda _: None)
    monkeypatch.setattr(evaluate.finetuning_tool, "finish", finish)
    changed = change(
        settings,
        parts="finetuning",
        data_dir="data",
        tasks="rte",
        learning_rate=1e-4,
        random_learning_rate=3e-4,
    )
    evaluate.run(changed)
    evaluate.run(changed)
    (found,) = given
    assert found.spm_model_file == str(model_dir / "spm.model")
    assert found.config_file == str(model_dir / "albert_config.json")
    assert found.runs.rates("rte", "random").head == 3e-4
    assert found.runs.rates("rte", "pretrained").head == 1e-4
    assert found.output_dir.startswith(f"{settings.output_dir}/finetuning_")
    table = read_table(settings)
    row = "| rte | accuracy | 50.0 | 50.0 ± 0.0 | 50.0 ± 0.0 | +0.00 |"
    assert row in table


@pytest.mark.parametrize("text", ["[]", '{"parts": {"cost": {}}}', "{"])
def test_a_damaged_file_is_refused(settings, tmp_path, text):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "measure.json").write_text(text)
    with pytest.raises(errors.UserError, match="measure.json"):
        evaluate.run(settings)


def test_parts_of_another_model_do_not_stay_in_the_folder(
    settings, tmp_path, tiny_vocab
):
    evaluate.run(change(settings, parts="cost"))
    other = tmp_path / "other"
    other.mkdir()
    write_model(other, tiny_vocab, seed=2)
    changed = change(settings, init_checkpoint=str(other), parts="held_out")
    message = "holds the part cost of another model.*=held_out,cost"
    for overwrite in (False, True):
        with pytest.raises(errors.UserError, match=message):
            evaluate.run(change(changed, overwrite=overwrite))


def test_table_that_is_missing_is_written_again(settings):
    settings = change(settings, parts="cost")
    evaluate.run(settings)
    table = read_table(settings)
    (pathlib.Path(settings.output_dir) / "measure.md").unlink()
    evaluate.run(settings)
    assert read_table(settings) == table
