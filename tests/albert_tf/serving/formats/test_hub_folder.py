"""Folders for Hugging Face; what transformers makes of them is in parity."""

import json
import pathlib
import resource
import sys

import numpy as np
import pytest

from albert_tf import convert_checkpoint
from albert_tf.common import errors
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.serving.formats import hub_folder
from albert_tf.text import normalization, tokenization, tokenizer_check
from tests import export_options, foreign_tokenizers
from tests.conftest import refused, tiny_config

SCORES = {
    "task_name": "mnli",
    "key_metric": "mcc",
    "runs": [{"folder": ".", "seed": 1, "step": 7, "scores": {"mcc": 0.75}}],
}


@pytest.fixture
def make_run(tmp_path, small_config, tiny_vocab):
    """Makes the folder of a finetuned run."""

    def make(task_name="mnli", **values):
        folder = tmp_path / "run"
        export_options.make_run(
            folder,
            small_config,
            tiny_vocab,
            task_name,
            data_dir="/home/someone/glue",
            learning_rate=1e-05,
            **values,
        )
        (folder / "scores.json").write_text(json.dumps(SCORES))
        return folder

    return make


def convert(source, target, **changes):
    convert_checkpoint.run(
        convert_checkpoint.ConvertOptions(
            from_=str(source), to=str(target), format="huggingface", **changes
        )
    )
    return target


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def test_run_gives_labels_vocabulary_and_card(make_run, tmp_path, tiny_vocab):
    folder = convert(make_run(), tmp_path / "hub")
    assert {path.name for path in folder.iterdir()} == {
        *hub_folder.NAMES,
        "spiece.normalization.json",
    } - {"vocab.txt"}
    labels = ["contradiction", "entailment", "neutral"]
    config = config_of(folder)
    assert config["id2label"] == {str(i): name for i, name in enumerate(labels)}
    assert config["label2id"] == {name: i for i, name in enumerate(labels)}
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    assert config.items() >= ids.items()
    rules = json.loads((folder / "tokenizer_config.json").read_text())
    assert rules["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert rules["model_max_length"] == 32 < config["max_position_embeddings"]
    assert (rules["cls_token"], rules["pad_token"]) == ("[CLS]", "<pad>")
    assert (rules["do_lower_case"], rules["keep_accents"]) == (True, False)
    vocabulary = folder / "spiece.model"
    assert vocabulary.read_bytes() == pathlib.Path(tiny_vocab).read_bytes()
    assert normalization.read(str(vocabulary), normalization.SENTENCEPIECE) == (
        normalization.Normalization()
    )
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert "pipeline_tag: text-classification\n" in card
    assert '"metrics":[{"type":"mcc","value":0.75}]' in card.replace(" ", "")
    assert "| learning_rate | 1e-05 |" in card
    assert "| data_dir | glue |" in card
    assert "/home/someone" not in card and str(tmp_path) not in card


@pytest.mark.parametrize(
    ("task_name", "expected"),
    [
        ("mnli", {"problem_type": "single_label_classification"}),
        ("sts-b", {"problem_type": "regression", "id2label": {"0": "LABEL_0"}}),
        ("race", {"architectures": ["AlbertForMultipleChoice"]}),
    ],
)
def test_meaning_of_outputs_is_named_and_kept(
    make_run, tmp_path, task_name, expected
):
    """Also when a folder is converted: with all weights and its vocabulary."""
    values = {"max_qa_length": 8} if task_name == "race" else {}
    run = make_run(task_name, **values)
    hub = convert(run, tmp_path / "hub")
    assert config_of(hub).items() >= expected.items()
    again = convert(hub, tmp_path / "again")
    for name in ("config.json", "tokenizer.json", "spiece.model"):
        assert (hub / name).read_bytes() == (again / name).read_bytes()
    sources = [run / "model.ckpt-best", hub, again]
    one, *others = [checkpoint_reader.read(str(path)) for path in sources]
    weights = one.load(one.shapes)
    for other in others:
        np.testing.assert_equal(other.load(other.shapes), weights)


def test_missing_vocabulary_is_refused(make_run, tmp_path):
    run = make_run()
    (run / "spm.model").unlink()
    with refused("no vocabulary beside it.*Name"):
        convert(run, tmp_path / "hub")
    assert not (tmp_path / "hub" / "config.json").exists()


def test_missing_library_is_named_before_anything_is_read(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with refused("`format=huggingface` needs tokenizers.*install tokenizers=="):
        convert(tmp_path / "nowhere", tmp_path / "hub")
    assert not list(tmp_path.iterdir())


def test_other_tokens_in_transformers_are_refused(
    make_run, tmp_path, monkeypatch
):
    run = make_run()
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nlamp\n")
    other = tokenization.VocabularyOptions(vocab_file=str(path))
    with refused("has another vocabulary"):
        convert(run, tmp_path / "hub", vocabulary=other)

    def refuse(*_):
        raise errors.UserError("The library tokenizers cuts")

    monkeypatch.setattr(tokenizer_check, "check", refuse)
    with refused("tokenizers cuts"):
        convert(run, tmp_path / "hub")
    assert not (tmp_path / "hub" / "config.json").exists()


def test_own_readme_is_not_replaced_unasked(make_run, tmp_path):
    run, hub = make_run(), tmp_path / "hub"
    hub.mkdir()
    (hub / "README.md").write_text("mine")
    with refused("exists"):
        convert(run, hub)
    assert (hub / "README.md").read_text() == "mine"
    (hub / "vocab.txt").write_text("mine, too: no model is replaced")
    convert(run, hub, overwrite=True)
    assert (hub / "vocab.txt").exists()


def test_a_full_disk_leaves_the_vocabulary_of_the_model_before(
    make_run, tmp_path
):
    """The next one removes it, with its normalization."""
    run, hub = make_run(), tmp_path / "hub"
    convert(run, hub)
    for name in ("vocab.txt", "vocab.normalization.json"):
        (hub / name).write_text("of the model before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            convert(run, hub, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(list(hub.glob("vocab.*"))) == 2
    convert(run, hub, overwrite=True)
    assert not list(hub.glob("vocab.*"))


def test_pieces_that_continue_a_number_are_warned_of(
    make_run, tmp_path, monkeypatch, caplog
):
    convert(make_run(), tmp_path / "hub")
    assert "pieces like" not in caplog.text
    tokenizer = tokenization.Tokenizer(str(tmp_path / "hub" / "spiece.model"))
    tokenizer.pieces = (*tokenizer.pieces[:-1], "5,")
    tokenizer.digit_comma_ids = {len(tokenizer.pieces) - 1: (1,)}
    hub_folder.warn_of_numbers(tokenizer)
    assert "1 pieces like '5,'" in caplog.text


@pytest.mark.parametrize("kind", ["mpnet", "xlm-roberta"])
def test_marks_of_roberta_are_not_written(tmp_path, kind):
    folder = tmp_path / kind
    path = foreign_tokenizers.write(folder, kind, {})
    option = "vocab_file" if kind == "mpnet" else "spm_model_file"
    vocabulary = tokenization.VocabularyOptions(**{option: path})
    tokenizer = tokenization.load(vocabulary)
    config = tiny_config(vocab_size=tokenizer.vocab_size)
    model = hub_folder.HubModel(config, {}, vocabulary, tokenizer)
    with refused(f"`{option}=.*has <s>, </s> and <mask>.* not written for"):
        hub_folder.write(str(tmp_path / "back"), model)
    assert not (tmp_path / "back").exists()
