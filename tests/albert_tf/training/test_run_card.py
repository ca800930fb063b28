"""The page that describes a run."""

import dataclasses
import importlib.metadata
import json
import pathlib

import pytest
import tensorflow as tf

import albert_tf
from albert_tf.common.options import option
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.text import tokenization
from albert_tf.training import run_card, run_folder, run_log


@dataclasses.dataclass(frozen=True)
class Settings:
    rate: float = option(0.5, "A rate.")
    labels: str | None = option(None, "Default: those of the file.")


@pytest.fixture
def folder(small_config, tmp_path):
    vocabulary = tokenization.VocabularyOptions()
    run_folder.RunStart(
        str(tmp_path),
        "run_x",
        Settings(),
        small_config,
        vocabulary,
        facts={"labels": ["no", "yes"]},
    ).write_options()
    return str(tmp_path)


def test_card_shows_numbers_options_and_architecture(
    folder, small_config, tmp_path
):
    facts = run_card.provenance(
        AlbertModel(small_config), "two files | made up", "abc"
    )
    known = dataclasses.replace(facts, entropy_of_labels=6.4)
    log = run_log.RunLog(folder, 8)
    log.start(0, 4, known)
    for step in (2, 4):
        log.write("train", step, {"loss": 1 / step}, 3.0)
    log.write("eval", 4, {"loss": 0.125, "accuracy": 0.75})
    assert run_card.write(folder) == str(tmp_path / "run_card.md")
    text = (tmp_path / "run_card.md").read_text()
    for line in (
        "# Run card: run_x",
        "| accuracy | 0.75 |",
        "| loss | 0.25 |",
        "| rate | 0.5 |",
        "| hidden_size | 16 |",
        "| data | two files / made up |",
        f"| parameters | {facts.parameters} |",
        "| entropy_of_labels | 6.4 |",
    ):
        assert f"{line}\n" in text
    picture = (tmp_path / "learning_curves.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_card_of_a_run_without_numbers(folder, tmp_path):
    run_card.write(folder)
    text = (tmp_path / "run_card.md").read_text()
    assert headings(text) == ["Options", "Architecture"]
    assert text.startswith(
        "# Run card: run_x\n\n![curves](learning_curves.png)\n\n## Options\n\n"
        "| name | value |\n| --- | --- |\n| labels | ['no', 'yes'] |\n"
        "| rate | 0.5 |\n"
    )


def headings(text):
    return [line[3:] for line in text.splitlines() if line.startswith("## ")]


def test_card_has_medians_the_highest_peak_and_what_was_seen(
    folder, small_config
):
    lines = [
        {"split": "facts", "step": 0, "examples_per_step": 8.0},
        {"split": "facts", "step": 2, "tokens_per_step": 200}
        | {"examples_per_step": 16.0},
    ]
    for step, speed, peak in ((2, 9.0, 70.0), (4, 1.0, 90.0), (6, 3.0, 80.0)):
        numbers = {"tokens_per_second": 10 * speed, "peak_memory_mb": peak}
        line = {"split": "train", "step": step, "examples_per_second": speed}
        lines.append({**line, **numbers})
    (pathlib.Path(folder) / "metrics.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    follower = pathlib.Path(folder) / "evaluation"
    follower.mkdir()
    (follower / "metrics.jsonl").write_text('{"split": "eval", "step": 4}\n')
    text = run_card.read_text(folder)
    assert "| split |" not in text and "| time |" not in text
    assert headings(text) == [
        "Last evaluation",
        "Last training line",
        "Speed and memory",
        "Data, model, software and machine",
        "Options",
        "Architecture",
    ]
    section = text.split("## Speed and memory\n\n")[1].split("\n\n")[0]
    assert section.splitlines()[2:] == [
        "| examples_per_second, median | 3 |",
        "| tokens_per_second, median | 30 |",
        "| peak_memory_mb | 90 |",
        "| examples_seen | 96 |",
        "| tokens_seen | 1,200 |",
    ]


def test_steps_of_another_run_are_not_seen():
    """Of one that continues its schedule and was started twice."""
    facts = {"split": "facts", "examples_per_step": 8.0}
    first, second = ({**facts, "step": step} for step in (1000, 1010))
    train = [{"split": "train", "step": step} for step in (1010, 1020)]
    found = run_card._summarize_speed([first, train[0], second, train[1]])
    assert found["examples_seen"] == "160"
    assert run_card._summarize_speed(train) == {}  # The facts are damaged.


def test_environment_counts_parameters_and_names_versions(
    small_config, monkeypatch
):
    """With the wheel for TPUs: libtpu, and no package called tensorflow."""
    find = importlib.metadata.version

    def find_other(name):
        if name in ("tensorflow", "tensorflow-text"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "0.0.14" if name == "libtpu" else find(name)

    monkeypatch.setattr(importlib.metadata, "version", find_other)
    encoder = AlbertModel(small_config)
    facts = run_card.provenance(encoder, "none", "abc")
    assert facts.versions.startswith(f"albert_tf {albert_tf.__version__}, ")
    assert f"tensorflow {tf.__version__}, tf_keras 2." in facts.versions
    assert facts.versions.endswith("libtpu 0.0.14")
    assert "tensorflow-text" not in facts.versions
    sizes = [variable.shape.num_elements() for variable in encoder.variables]
    assert facts.parameters == sum(sizes)
    summary = run_card.summary(small_config, facts)
    assert f"{facts.parameters:,} parameters: 4 x 2 layers in 2 gr" in summary


def drawn(lines):
    """What each panel of the curves shows: label, place and style of lines."""
    return {
        panel.get_title(): {
            line.get_label(): (
                *map(list, line.get_data()),
                line.get_linestyle(),
            )
            for line in panel.get_lines()
        }
        for panel in run_card._draw_curves(lines).get_axes()
    }


TRAINED = {
    "split": "train",
    "step": 5,
    "masked_lm_loss": 7.0,
    "masked_lm_accuracy": 0.01,
    "sentence_order_loss": 0.7,
    "threshold_of_a": 0.5,
}


def test_curves_show_what_frequencies_alone_reach():
    facts = {"split": "facts", "step": 0}
    known = {"entropy_of_labels": 6.4, "share_of_most_frequent_label": 0.05}
    later = {**TRAINED, "step": 6, "masked_lm_loss": 6.5}
    evaluated = {"split": "eval", "step": 6, "sentence_order_loss": 0.6}
    lines = [TRAINED, later, evaluated]
    found = drawn([facts, {**facts, **known}, *lines])
    # Losses first.
    assert list(found) == sorted(found, key=lambda n: ("acc" in n, n))
    assert found == {
        "masked_lm_loss": {
            "train": ([5, 6], [7.0, 6.5], "-"),
            "frequencies only": ([0, 1], [6.4, 6.4], "--"),
        },
        "masked_lm_accuracy": {
            "train": ([5, 6], [0.01, 0.01], "-"),
            "most frequent piece": ([0, 1], [0.05, 0.05], "--"),
        },
        "sentence_order_loss": {
            "train": ([5, 6], [0.7, 0.7], "-"),
            "eval": ([6], [0.6], "-"),
        },
    }
    for older in (lines, [facts, *lines]):
        labels = {label for panel in drawn(older).values() for label in panel}
        assert labels == {"train", "eval"}
