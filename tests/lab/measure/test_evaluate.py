"""The command: parts, resumption, other settings."""

import dataclasses
import json
import lzma

import pytest

from lab.measure import evaluate, report
from tests.conftest import refused
from tests.lab.conftest import write_model

PAIR = {"field": "syntax", "linguistics_term": "order"}
PAIRS = [
    {**PAIR, "UID": uid, "sentence_good": good, "sentence_bad": bad}
    for uid, good, bad in (
        ("a", "Ivo sleeps.", "Sleeps Ivo."),
        ("b", "The lamp", "the lamp"),  # The same pieces.
    )
]


@pytest.fixture
def settings(tmp_path, model_dir):
    document = "Mara gave Ivo the lamp.\nIvo took it home.\n" * 4
    (tmp_path / "text.txt").write_text(f"{document}\n" * 3)
    (tmp_path / "blimp").mkdir()
    packed = lzma.compress("\n".join(map(json.dumps, PAIRS)).encode())
    (tmp_path / "blimp/blimp.jsonl.xz").write_bytes(packed)
    return evaluate.EvaluateOptions(
        init_checkpoint=str(model_dir),
        output_dir=str(tmp_path / "out"),
        held_out_file=str(tmp_path / "text.txt"),
        data_dir=str(tmp_path),
        parts="cost,held_out,minimal_pairs",
    )


def test_parts_are_written_and_not_measured_again(
    settings, tmp_path, monkeypatch, capsys
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
    assert parts["minimal_pairs"]["results"]["paradigms"]["b"] == 50.0
    assert parts["minimal_pairs"]["results"]["ties"] == 1
    table = (tmp_path / "out/measure.md").read_text()
    assert capsys.readouterr().out == table
    assert "| 2 minimal pairs, 1 ties | % right |" in table
    evaluate.run(dataclasses.replace(settings, overwrite=True))
    assert asked == ["held_out"] * 2
    assert report.read(settings.output_dir) == parts


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("measure.md", "mine", "measure.md exists, in a folder that is read"),
        ("measure.json", '["mine"]', "measure.json holds no measure"),
    ],
)
def test_files_of_others_stay(settings, tmp_path, name, content, message):
    path = tmp_path / "out" / name
    path.parent.mkdir()
    path.write_text(content)
    with refused(message):
        evaluate.run(dataclasses.replace(settings, parts="held_out"))
    assert path.read_text() == content


def test_an_unknown_name_is_refused(settings):
    with refused("'hald_out' is no name for `parts`. There are .*held_out"):
        dataclasses.replace(settings, parts="cost,hald_out")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{learning_rate: 1e-4}", "is not JSON such as"),
        ("5", "finetuning_options=5` is not JSON such as"),
        ('["seed"]', "is not JSON such as"),
        ('{"sed": 1}', "'sed' is no name for `finetuning_options`"),
        ('{"rte": {"sed": 1}}', "'sed' is no name for `finetuning_options`"),
        ('{"rt": {"seed": 1}}', "'rt' is no name for .* There are .*rte"),
        # The runs set these themselves.
        ('{"seed": 1}', "'seed' is no name for `finetuning_options`"),
        ('{"init_checkpoint": "x"}', "'init_checkpoint' is no name"),
    ],
)
def test_wrong_options_of_finetuning_are_refused(settings, given, message):
    with refused(message):
        dataclasses.replace(settings, finetuning_options=given)


def test_text_in_another_encoding_is_refused(settings, tmp_path):
    (tmp_path / "text.txt").write_bytes("Über".encode("latin1"))
    with refused("held_out_file.*not UTF-8"):
        evaluate.run(settings)


def test_other_settings_and_weights_are_refused(settings, tmp_path, tiny_vocab):
    settings = dataclasses.replace(settings, parts="held_out")
    evaluate.run(settings)
    with refused("measured with other windows"):
        evaluate.run(dataclasses.replace(settings, windows=1))
    other = tmp_path / "other"
    other.mkdir()
    write_model(other, tiny_vocab, seed=2)
    changed = dataclasses.replace(settings, init_checkpoint=str(other))
    for given in (
        changed,
        dataclasses.replace(changed, parts="cost", overwrite=True),
    ):
        with refused("held_out, .*other weights"):
            evaluate.run(given)
    before = report.read(settings.output_dir)["held_out"]["results"]
    evaluate.run(dataclasses.replace(changed, overwrite=True))
    after = report.read(settings.output_dir)["held_out"]["results"]
    assert before["bits_per_byte"] != after["bits_per_byte"]


def test_finetuning_gets_the_model_its_vocabulary_and_the_options(
    settings, monkeypatch, model_dir, capsys
):
    given = []

    def finish(plan, places):
        given.append(plan)
        result = {"task": "rte", "seed": 1, "metric": "accuracy", "steps": 3}
        return [
            {**result, "start": start, "value": value, "baseline": 0.5}
            for start, value in (("random", 0.5), ("pretrained", 0.6))
        ]

    monkeypatch.setattr(evaluate.real_tasks, "prepare", lambda _: {})
    monkeypatch.setattr(evaluate.real_tasks, "finish", finish)
    changed = dataclasses.replace(
        settings,
        parts="finetuning",
        tasks="rte",
        starts="pretrained",
        finetuning_options='{"learning_rate": 1e-4}',
    )
    evaluate.run(changed)
    evaluate.run(changed)
    (found,) = given
    assert found.vocabulary.path == str(model_dir / "spm.model")
    assert found.config_file == str(model_dir / "albert_config.json")
    assert found.changes == {"learning_rate": 1e-4}
    assert found.starts == ["pretrained"]
    assert found.output_dir.startswith(f"{settings.output_dir}/finetuning_")
    row = "| rte | accuracy | 50.0 | 50.0 ± 0.0 | 60.0 ± 0.0 | +10.00 |"
    assert row in capsys.readouterr().out
