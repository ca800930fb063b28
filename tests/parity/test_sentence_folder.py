"""Folders in sentence-transformers, against our models: `make test-torch`."""

import json

import pytest
import tensorflow as tf

from albert_tf import convert_checkpoint
from albert_tf.model.checkpoints import restoring
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import source, source_options
from albert_tf.tasks.embedding import model as embedding
from albert_tf.tasks.embedding import service as embedding_service
from albert_tf.text import tokenization
from tests.albert_tf.serving import saved_services
from tests.conftest import FIXTURES, tiny_config
from tests.parity.conftest import assert_close

pytestmark = pytest.mark.torch
LENGTH = 24
TEXTS = [
    "Mara gave Ivo the lamp.",
    "",
    "Café \u00a0in\u200b the boat – Ivo's “lamp”, 1,024 ropes.",
    "Ivo slept at the mill. " * 20,
]
VOCABULARIES = {"spm_model_file": "spm.model", "vocab_file": "vocab.txt"}


@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize(
    ("text_pooling", "width", "pooling"),
    [("mean", 0, "cls"), ("cls", 0, "cls"), ("max", 6, "pair")],
)
def test_vectors_are_ours(tmp_path, kind, text_pooling, width, pooling):
    """Of a checkpoint, with a projection too, whatever its pooler reads."""
    import sentence_transformers

    path = str(FIXTURES / "own_text" / VOCABULARIES[kind])
    vocabulary = tokenization.VocabularyOptions(**{kind: path})
    tokenizer = tokenization.load(vocabulary)
    config = tiny_config(
        vocab_size=tokenizer.vocab_size,
        num_hidden_layers=2,
        max_position_embeddings=LENGTH,
        pooling=pooling,
    )
    model = embedding.AlbertEmbedder(AlbertModel(config), text_pooling, width)
    saved_services.spread(model)
    tf.train.Checkpoint(model=model).write(str(tmp_path / "model.ckpt"))
    (tmp_path / "albert_config.json").write_text(config.to_json())
    convert_checkpoint.run(
        convert_checkpoint.ConvertOptions(
            from_=str(tmp_path / "model.ckpt"),
            to=str(tmp_path / "folder"),
            format="sentence_transformers",
            text_pooling=text_pooling,
            vocabulary=vocabulary,
        )
    )
    theirs = sentence_transformers.SentenceTransformer(
        str(tmp_path / "folder"), device="cpu"
    )
    assert theirs.max_seq_length == LENGTH
    service = embedding_service.EmbeddingService(model, tokenizer, LENGTH)
    ours = service.answer(tf.constant(TEXTS))
    assert ours["truncated"].numpy().tolist() == [False, False, True, True]
    assert_close(theirs.encode(TEXTS), ours["embedding"])
    theirs.prompts |= {"query": "Ivo asks: ", "passage": "The mill \n"}
    theirs.default_prompt_name = "passage"
    theirs.save(str(tmp_path / "again"))
    found = source.find(
        source_options.SourceOptions(
            init_checkpoint=str(tmp_path / "again"),
            task="embedding",
            # transformers writes none for SentencePiece, but tokenizer.json.
            vocabulary=tokenization.VocabularyOptions(
                vocabulary.spm_model_file
            ),
        )
    )
    again = source.make_service(found, source.make_task(found))
    restoring.restore(again.model, found.checkpoint)
    found = again.answer(tf.constant(TEXTS))
    assert_close(theirs.encode(TEXTS), found["embedding"])
    for name in ("", "query", "passage"):
        found = again.prompted(tf.constant(TEXTS), tf.fill([len(TEXTS)], name))
        expected = theirs.encode(TEXTS, prompt=name and theirs.prompts[name])
        assert_close(expected, found["embedding"])
    assert_close(theirs.encode(TEXTS, prompt=""), ours["embedding"])


def test_vectors_of_an_old_folder(tmp_path):
    """Whose encoder lies in a folder inside, which may be named, too."""
    import sentence_transformers

    words = tokenization.VocabularyOptions(
        vocab_file=str(FIXTURES / "own_text" / "vocab.txt")
    )
    config = tiny_config(
        vocab_size=tokenization.load(words).vocab_size,
        max_position_embeddings=LENGTH,
    )
    model = embedding.AlbertEmbedder(AlbertModel(config), "cls")
    saved_services.spread(model)
    tf.train.Checkpoint(model=model).write(str(tmp_path / "model.ckpt"))
    (tmp_path / "albert_config.json").write_text(config.to_json())
    folder = tmp_path / "folder"
    convert_checkpoint.run(
        convert_checkpoint.ConvertOptions(
            from_=str(tmp_path / "model.ckpt"),
            to=str(folder),
            format="sentence_transformers",
            text_pooling="cls",
            vocabulary=words,
        )
    )
    (folder / "0_Transformer").mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        if path.name != "modules.json":
            path.rename(folder / "0_Transformer" / path.name)
    steps = json.loads((folder / "modules.json").read_text())
    steps[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(steps))
    theirs = sentence_transformers.SentenceTransformer(
        str(folder), device="cpu"
    )
    for place in (folder, folder / "0_Transformer"):
        given = source_options.SourceOptions(
            init_checkpoint=str(place), task="embedding"
        )
        found = source.find(given)
        service = source.make_service(found, source.make_task(found))
        restoring.restore(service.model, found.checkpoint)
        ours = service.answer(tf.constant(TEXTS))
        assert_close(theirs.encode(TEXTS), ours["embedding"])
