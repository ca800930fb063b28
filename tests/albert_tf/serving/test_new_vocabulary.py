"""Checkpoints with another vocabulary: rows, outputs, refusals."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import convert_checkpoint
from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.model.optimizers import optimization
from albert_tf.text import tokenization, wordpiece
from albert_tf.training import run_folder
from tests.albert_tf.model import passes
from tests.albert_tf.model.models import MODELS
from tests.conftest import refused

PIECES_BIAS = "cls/predictions/output_bias"


@pytest.fixture
def with_words(small_config, tmp_path, tiny_vocab, caplog):
    """A model with its vocabulary beside it; its prefix."""
    caplog.set_level("INFO", "absl")
    size = tokenization.Tokenizer(tiny_vocab).vocab_size
    config = dataclasses.replace(small_config, vocab_size=size)

    def save(name="pretraining"):
        model = passes.fill(MODELS[name](AlbertModel(config)), 0.5)
        optimizer = optimization.Lamb(0.1)
        optimizer.build(model.trainable_variables)
        folder = tmp_path / "source"
        folder.mkdir()
        prefix = str(folder / "model.ckpt-7")
        checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
        checkpoint.write(prefix)
        (folder / "albert_config.json").write_text(config.to_json())
        vocabulary = tokenization.VocabularyOptions(spm_model_file=tiny_vocab)
        run_folder.copy_vocabulary(vocabulary, str(folder))
        return prefix, model

    return save


def convert(source, target, name, **changes):
    convert_checkpoint.run(
        convert_checkpoint.ConvertOptions(
            from_=source, to=str(target), format=name, **changes
        )
    )


def contents(path):
    checkpoint = checkpoint_reader.read(str(path))
    return checkpoint.load([*checkpoint.shapes, *checkpoint.state])


def new_tokenizer(folder):
    (kind, path), *_ = run_folder.find_vocabularies(str(folder)).items()
    return tokenization.load(tokenization.VocabularyOptions(**{kind: path}))


@pytest.mark.parametrize(
    ("name", "model_name"),
    [
        ("tf1", "pretraining"),
        ("tf2", "pretraining"),
        ("huggingface", "masked words"),
        ("bfloat16", "encoder"),
        ("sentence_transformers", "encoder"),
    ],
)
def test_a_trimmed_model_gives_the_same_for_what_stays(
    with_words, story_text, tmp_path, caplog, name, model_name
):
    prefix, model = with_words(model_name)
    lines = story_text[0].splitlines()[:4]
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(lines))
    there = tmp_path / "new"
    target = there / "x" if name.startswith("tf") else there
    convert(prefix, target, name, keep_pieces_of=str(corpus))
    found, tokenizer = contents(target), new_tokenizer(there)
    tiny_tokenizer = new_tokenizer(pathlib.Path(prefix).parent)
    assert tokenizer.vocab_size < tiny_tokenizer.vocab_size
    ids = tiny_tokenizer.pieces_to_ids(tokenizer.pieces)
    rounded = 2**-7 if name == "bfloat16" else 0
    for key, value in passes.values(model).items():
        is_table = "word_embeddings" in key or key == PIECES_BIAS
        if key in found:
            expected = value[ids] if is_table else value
            np.testing.assert_allclose(found[key], expected, rounded)
    assert (PIECES_BIAS in found) == (model_name != "encoder")
    assert not [key for key in found if "adam_" in key]
    checkpoint = checkpoint_reader.read(str(target))
    assert checkpoint.config.vocab_size == tokenizer.vocab_size
    kept = f"{len(ids)} pieces: {len(ids)} were kept, 0 made of others"
    assert kept in caplog.text
    words = " ".join(lines).split()
    assert f"Of the {len(words)} words in {corpus}, 0 (0.00%)" in caplog.text
    if name != "tf2":
        return
    trimmed = MODELS[model_name](AlbertModel(checkpoint.config))
    restoring.restore(trimmed, str(target))
    logits = []
    for one, cutter in ((model, tiny_tokenizer), (trimmed, tokenizer)):
        row = [cutter.cls_id, *cutter.encode(lines[0]), cutter.sep_id]
        batch = {"input_ids": tf.constant([row])}
        batch["input_mask"] = tf.ones_like(batch["input_ids"])
        batch["segment_ids"] = tf.zeros_like(batch["input_ids"])
        batch["masked_lm_positions"] = tf.constant([[1, 2]])
        logits.append(one(batch)["masked_lm_logits"].numpy())
    np.testing.assert_allclose(logits[1], logits[0][..., ids], atol=1e-5)


def test_another_vocabulary_of_another_kind(
    with_words, tiny_tokenizer, tmp_path, caplog
):
    prefix, model = with_words()
    word = tiny_tokenizer.decode([300])
    pieces = [*reversed(wordpiece.SPECIAL_PIECES), word, f"{word}z", "\u2603"]
    path = tmp_path / "new.txt"
    path.write_text("\n".join(pieces))
    target = tmp_path / "new" / "x"
    convert(prefix, target, "tf2", new_vocab_file=str(path))
    table = passes.values(model)["bert/embeddings/word_embeddings"]
    rows = contents(target)["bert/embeddings/word_embeddings"]
    ids = [tiny_tokenizer.mask_id, tiny_tokenizer.sep_id, tiny_tokenizer.cls_id]
    np.testing.assert_array_equal(rows[:3], table[ids])
    for row, text in zip(rows[5:], pieces[5:], strict=True):
        mean = table[tiny_tokenizer.encode(text)].mean(0)
        np.testing.assert_array_equal(row, mean)
    assert "8 pieces: 5 were kept, 3 made of others" in caplog.text
    assert new_tokenizer(target.parent).normalization.do_lower_case


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        (
            "new_vocab_file",
            "[PAD]\n[UNK]\n[SEP]\na",
            r"`new_vocab_file=.*no pie",
        ),
        (
            "new_vocab_file",
            "\0",
            "`new_vocab_file=.* not a SentencePiece model",
        ),
        (
            "new_vocab_file",
            None,
            "`new_vocab_file=.* not a file|does not exist",
        ),
        ("keep_pieces_of", None, "`keep_pieces_of=.*"),
        ("keep_pieces_of", " \n\n", "`keep_pieces_of=.* holds no words"),
        ("keep_pieces_of", b"a\n\xff", "line 2, is not UTF-8"),
    ],
)
def test_vocabularies_that_are_refused(
    with_words, tmp_path, option, content, message
):
    prefix, _ = with_words()
    path = tmp_path / "given"
    if content is not None:
        is_bytes = isinstance(content, bytes)
        path.write_bytes(content if is_bytes else content.encode())
    target = tmp_path / "new" / "x"
    with refused(message):
        convert(prefix, target, "tf2", **{option: str(path)})
    assert not list(target.parent.glob("*.index"))


def test_a_new_vocabulary_needs_the_old_one(with_words, tmp_path):
    prefix, _ = with_words("encoder")
    (pathlib.Path(prefix).parent / "spm.model").unlink()
    path = tmp_path / "new.txt"
    path.write_text("\n".join([*wordpiece.SPECIAL_PIECES, "a"]))
    with refused("has no vocabulary beside it"):
        convert(prefix, tmp_path / "new" / "x", "tf2", new_vocab_file=str(path))


@pytest.mark.parametrize("option", ["new_vocab_file", "keep_pieces_of"])
def test_files_that_are_read_are_not_replaced(with_words, tmp_path, option):
    prefix, _ = with_words("encoder")
    path = tmp_path / "new" / "vocab.txt"
    path.parent.mkdir()
    path.write_text("\n".join([*wordpiece.SPECIAL_PIECES, "a"]))
    given = {option: str(path), "overwrite": True}
    with refused("is one of the input files"):
        convert(prefix, path.parent, "bfloat16", **given)
