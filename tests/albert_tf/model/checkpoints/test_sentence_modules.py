"""Folders of sentence-transformers: what is read, and what is refused."""

import json

import pytest

from albert_tf.model.checkpoints import (
    checkpoint_files,
    checkpoint_reader,
    sentence_modules,
)
from tests.conftest import refused
from tests.sentence_folders import DENSE, OLD, write


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        (OLD, "mean"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": ["max"]}, "max"),
    ],
)
def test_pooling_of_old_and_new_files(tmp_path, pooling, expected):
    folder = write(tmp_path, ["Pooling", "Normalize"], pooling)
    assert sentence_modules.read(folder) == sentence_modules.Modules(expected)


PROMPTS = {"q": "query: ", "p": "passage: ", "none": None}


@pytest.mark.parametrize(
    ("values", "prompt", "texts"),
    [
        ({}, None, {"q": "query: ", "p": "passage: ", "none": ""}),
        ({"prompts": {"q": ""}, "default_prompt_name": "q"}, None, {}),
        ({"prompts": None}, None, {}),
        ({"prompts": {"q": "a"}, "default_prompt_name": "q"}, "q", {"q": "a"}),
    ],
)
def test_prompts_are_read(tmp_path, values, prompt, texts):
    folder = write(
        tmp_path,
        ["Pooling", "Normalize"],
        config_sentence_transformers={"prompts": PROMPTS} | values,
    )
    found = sentence_modules.read(folder)
    assert (found.prompting.prompt, found.prompting.texts) == (prompt, texts)
    assert not found.remarks


def test_a_command_tells_a_remark_once(tmp_path, caplog):
    folder = write(tmp_path, ["Pooling"])
    for _ in range(2):
        checkpoint_reader.modules_beside(folder)
    (message,) = caplog.messages
    assert "no step Normalize" in message


@pytest.mark.parametrize("length", [None, 0, 10**6, True])
def test_all_that_a_folder_says(tmp_path, length):
    folder = write(
        tmp_path,
        ["Pooling", "Dense"],
        sentence_bert_config={"max_seq_length": length, "do_lower_case": True},
        tokenizer_config={"model_max_length": 77},
        config_sentence_transformers={
            "default_prompt_name": "ask",
            "prompts": {"ask": "query: "},
        },
    )
    found = sentence_modules.read(folder)
    assert found.max_seq_length == 77
    assert found.dense == f"{folder}/2_Dense"
    no_step, lower = found.remarks
    assert "no step Normalize" in no_step
    assert found.prompting.before == "query: "
    assert "sentence_bert_config.json has do_lower_case" in lower


@pytest.mark.parametrize("kind", ["Transformer", "BERT", "ALBERT"])
def test_old_folders_have_their_encoder_inside(tmp_path, kind, monkeypatch):
    """Given is the whole folder, or the encoder's."""
    name = f"0_{kind}"
    steps = [
        {"type": f"sentence_transformers.models.{each}", "path": path}
        for each, path in ((kind, name), ("Pooling", "1_Pooling"))
    ]
    files = {
        f"{name}/config": {"model_type": "bert"},
        f"{name}/sentence_bert_config": {"max_seq_length": 9},
        "sentence_bert_config": {"max_seq_length": 8},
    }
    write(tmp_path, [], {"pooling_mode": "cls"}, **files)
    (tmp_path / "modules.json").write_text(json.dumps(steps))
    inside = str(tmp_path / name)
    for given in (str(tmp_path), f"{tmp_path}/", inside, f"{inside}/"):
        assert checkpoint_files.find(given) == inside
    monkeypatch.chdir(tmp_path / name)
    for given in (inside, "."):
        found = sentence_modules.read(given)
        assert (found.text_pooling, found.max_seq_length) == ("cls", 9)
        assert "modules.json says how vectors" in found.remarks[0]
    other = tmp_path / "1_Pooling"
    assert sentence_modules.read(str(other)) is None


@pytest.mark.parametrize("path", ["..", "0_Transformer", "", 7])
def test_a_folder_without_its_encoder_is_refused(tmp_path, path):
    write(tmp_path, [])
    steps = [{"type": "a.Transformer", "path": path}]
    (tmp_path / "modules.json").write_text(json.dumps(steps))
    message = "outside of its folder" if path == ".." else "does not say which"
    with refused(message):
        checkpoint_files.find(str(tmp_path))


def test_other_folders_say_nothing(tmp_path):
    assert sentence_modules.read(str(tmp_path)) is None


TANH = {k: v for k, v in DENSE.items() if k != "activation_function"}


@pytest.mark.parametrize(
    ("kinds", "given", "message"),
    [
        (["Pooling"], {"pooling": {"pooling_mode": "lasttoken"}}, "lasttoken"),
        (
            ["Pooling"],
            {"pooling": OLD | {"pooling_mode_mean_sqrt_len_tokens": True}},
            r'\["mean", "mean_sqrt_len_tokens"\].*has mean, cls, max',
        ),
        (["Pooling"], {"pooling": {}}, r"the pooling \[\]"),
        (["Pooling"], {"pooling": {"pooling_mode": [["cls"]]}}, "the pooling"),
        (["LSTM", "Pooling"], {}, "the steps Transformer, LSTM, Pooling"),
        (["Pooling", "Normalize", "Dense"], {}, "in this order"),
        ([], {}, "needs the first two"),
        (["Pooling", "Pooling"], {}, "has a step twice"),
        (["Pooling", "Dense"], {"dense": TANH}, "activation_function='.*Tanh'"),
        (
            ["Pooling", "Dense"],
            {"dense": DENSE | {"use_residual": True}},
            "use_residual=True",
        ),
        (
            ["Pooling", "Dense"],
            {"dense": DENSE | {"out_features": "5"}},
            "out_features='5', which is no width",
        ),
        (["Pooling"], {"modules": {"Pooling": 1}}, "is no list of steps"),
        *(
            (["Pooling"], {"config_sentence_transformers": values}, message)
            for values, message in (
                (
                    {"prompts": PROMPTS, "default_prompt_name": ["q"]},
                    r"formers\.json: \['q'\] is no prompt. There are none, ",
                ),
                ({"prompts": {"q": 1}}, "no JSON object of names and texts"),
                ({"prompts": ["query: "]}, "no JSON object of names and texts"),
            )
        ),
        (
            ["Pooling"],
            {
                "pooling": OLD | {"include_prompt": False},
                "config_sentence_transformers": {"prompts": PROMPTS},
            },
            "include_prompt=false",
        ),
    ],
)
def test_what_this_project_does_not_have_is_named(
    tmp_path, kinds, given, message
):
    folder = write(tmp_path, kinds, **given)
    with refused(message):
        sentence_modules.read(folder)


def test_a_missing_part_is_named(tmp_path):
    folder = write(tmp_path, ["Pooling"])
    (tmp_path / "1_Pooling" / "config.json").unlink()
    with refused("1_Pooling/config.json does no"):
        sentence_modules.read(folder)
