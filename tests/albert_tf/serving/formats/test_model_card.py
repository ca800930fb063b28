"""The model card of a Hugging Face folder."""

import json

import pytest

from albert_tf.common import scores
from albert_tf.serving.formats import model_card
from albert_tf.text import tokenization
from albert_tf.training import run_card


def card(
    tokenizer, architecture="AlbertForMaskedLM", folder="a/my model/", **k
):
    config = {
        "architectures": [architecture],
        "max_position_embeddings": 64,
        "model_type": "bert" if architecture[:4] == "Bert" else "albert",
    }
    return model_card.text(folder, config, tokenizer, 64, **k)


def metadata(text):
    _, header, _ = text.split("---\n")
    return dict(
        line.split(": ", 1) for line in header.splitlines() if line[0] != "#"
    )


@pytest.mark.parametrize("architecture", sorted(model_card.pipelines()))
def test_use_of_every_architecture(architecture, tiny_tokenizer):
    text = card(tiny_tokenizer, architecture)
    pipeline = model_card.pipelines()[architecture]
    assert metadata(text)["pipeline_tag"] == pipeline
    assert "\n# my model\n" in text
    code = text.split("```python\n")[1].split("```")[0]
    compile(code, "card", "exec")
    if "pipeline(" in code:
        assert f'transformers.pipeline("{pipeline}", "THIS_FOLDER")' in code
        assert ("[MASK]" in code) == (pipeline == "fill-mask")
    elif architecture == model_card.SENTENCES:
        assert "library_name: sentence-transformers" in text
        assert f'{architecture}("THIS_FOLDER")' in code
    else:
        assert f"{architecture}.from_pretrained" in code
    assert ("stands in the gap" in text) == ("MultipleChoice" in architecture)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({}, "lower-cased, accents removed"),
        ({"do_lower_case": False}, "cased, accents removed"),
        ({"keep_accents": True}, "lower-cased, accents kept"),
    ],
)
def test_rules_of_the_text(undescribed_vocab, settings, words):
    tokenizer = tokenization.Tokenizer(undescribed_vocab, **settings)
    assert f"SentencePiece, 400 pieces, {words}, at most 64 tokens." in card(
        tokenizer
    )


def test_scores_of_a_run_are_metadata(tiny_tokenizer, monkeypatch):
    found = {"accuracy": 0.875, "f1": float("nan"), "loss": float("inf")}
    monkeypatch.setattr(scores, "best_scores", lambda folder: found)
    monkeypatch.setattr(run_card, "read_text", lambda folder: "# Run\n")
    (model,) = json.loads(
        metadata(card(tiny_tokenizer, run_dir="r"))["model-index"]
    )
    (result,) = model["results"]
    assert model["name"] == "my model"
    assert result["metrics"] == [{"type": "accuracy", "value": 0.875}]
    assert "model-index" not in card(tiny_tokenizer)


@pytest.mark.parametrize(
    "line, expected",
    [
        ("data: /home/me/my_data/train.tsv", "data: train.tsv"),
        ("| /a/b | ~/c/d.txt,/e/f |", "| b | d.txt,f |"),
        ("see https://example.com/a/b", "see https://example.com/a/b"),
        ("configs/base.json, 3/4 of it", "configs/base.json, 3/4 of it"),
        ("# Run\n## Data\ntext # 1", "## Run\n### Data\ntext # 1"),
    ],
)
def test_run_card_is_a_section_without_folders_of_the_machine(
    tiny_tokenizer, monkeypatch, line, expected
):
    monkeypatch.setattr(scores, "best_scores", lambda folder: {})
    monkeypatch.setattr(run_card, "read_text", lambda folder: line)
    assert card(tiny_tokenizer, run_dir="r").endswith(f"\n{expected}")
