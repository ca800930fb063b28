"""The commands of docs/checkpoints.md, on tiny models."""

import shutil

import pytest
import tensorflow as tf

from albert_tf import convert_checkpoint
from albert_tf.model.checkpoints import checkpoint_files, checkpoint_reader
from albert_tf.model.heads import pretraining
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.text import tokenization
from tests.end_to_end.pages import call, commands

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory, small_config, tiny_vocab):
    place = tmp_path_factory.mktemp("place")
    model = pretraining.AlbertPretrainer(AlbertModel(small_config))
    run = place / "runs" / "pretrained"
    run.mkdir(parents=True)
    (run / "albert_config.json").write_text(small_config.to_json())
    tf.train.Checkpoint(model=model).write(str(run / "model.ckpt-best"))
    shutil.copytree(run, place / "runs" / "student")
    for name, target in (
        ("tf1", place / "google" / "model.ckpt-best"),
        ("huggingface", place / "hf"),
    ):
        convert_checkpoint.run(
            convert_checkpoint.ConvertOptions(
                from_=str(run),
                to=str(target),
                format=name,
                vocabulary=tokenization.VocabularyOptions(
                    spm_model_file=tiny_vocab
                ),
            )
        )
    shutil.copy(tiny_vocab, place / "google" / "30k-clean.model")
    shutil.copy(tiny_vocab, place / "german.model")  # So all rows are kept.
    (place / "corpus.txt").write_text("The lamp is red.\n")
    (place / "glue" / "CoLA").mkdir(parents=True)
    rows = [f"x\t{i % 2}\t\tThe lamp {i} is red.\n" for i in range(40)]
    (place / "glue" / "CoLA" / "train.tsv").write_text("".join(rows))
    return place


@pytest.mark.parametrize("command", commands("checkpoints.md"))
def test_command(command, place, monkeypatch):
    monkeypatch.chdir(place)
    settings = call(command)
    if isinstance(settings, convert_checkpoint.ConvertOptions):
        before, after = (
            checkpoint_reader.read(path)
            for path in ("runs/pretrained", settings.to)
        )
        if settings.keep_pieces_of:
            assert after.config.vocab_size < before.config.vocab_size
            return
        expected, actual = (c.load(c.shapes) for c in (before, after))
        assert expected.keys() == actual.keys()
        for name, value in expected.items():
            if settings.format == "bfloat16":
                value = tf.cast(tf.cast(value, tf.bfloat16), tf.float32).numpy()
            assert value.tobytes() == actual[name].tobytes(), name
    else:
        assert checkpoint_files.find(settings.finetuning.output_dir)
