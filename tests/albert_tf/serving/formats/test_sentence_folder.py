"""What is written; what sentence-transformers makes of it is in parity."""

import json

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf import convert_checkpoint
from albert_tf.common import options
from albert_tf.model.checkpoints import (
    checkpoint_reader,
    restoring,
    sentence_modules,
)
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import source, source_options
from albert_tf.serving.formats import hub_folder
from albert_tf.tasks.embedding import model as embedding
from albert_tf.text import tokenization
from tests.albert_tf.serving import saved_services
from tests.conftest import LAYER_ATOL, refused


@pytest.fixture
def convert(tmp_path, small_config, tiny_vocab):
    """Converts a model with vectors of `width`; returns model and folder."""

    def run(width, **changes):
        encoder = AlbertModel(small_config)
        model = embedding.AlbertEmbedder(encoder, projection_size=width)
        saved_services.spread(model)
        tf.train.Checkpoint(model=model).write(str(tmp_path / "model.ckpt"))
        config = tmp_path / "albert_config.json"
        config.write_text(small_config.to_json())
        values = {
            "from_": str(tmp_path / "model.ckpt"),
            "to": str(tmp_path / "folder"),
            "format": "sentence_transformers",
            "vocabulary": tokenization.VocabularyOptions(tiny_vocab),
            **changes,
        }
        convert_checkpoint.run(convert_checkpoint.ConvertOptions(**values))
        return model, tmp_path / "folder"

    return run


def read(path):
    return json.loads(path.read_text())


def kinds(folder):
    """The steps, and the files of those that have some."""
    modules = read(folder / "modules.json")
    assert [module["idx"] for module in modules] == list(range(len(modules)))
    for module in modules[1:-1]:
        assert (folder / module["path"] / "config.json").is_file()
    return [module["type"].rsplit(".", 1)[-1] for module in modules]


def test_steps_and_their_files(convert, small_config):
    model, folder = convert(5, text_pooling="max")
    assert kinds(folder) == ["Transformer", "Pooling", "Dense", "Normalize"]
    pooling = read(folder / "1_Pooling" / "config.json")
    modes = {k for k, v in pooling.items() if v is True}
    assert modes == {"pooling_mode_max_tokens"}
    length = read(folder / "sentence_bert_config.json")["max_seq_length"]
    assert length == small_config.max_position_embeddings
    assert pooling["word_embedding_dimension"] == small_config.hidden_size
    dense = read(folder / "2_Dense" / "config.json")
    assert (dense["in_features"], dense["out_features"]) == (16, 5)
    content = (folder / "2_Dense" / "model.safetensors").read_bytes()
    tensors = safetensors.numpy.load(content)
    kernel, bias = (v.numpy() for v in model.projection.variables)
    np.testing.assert_array_equal(tensors["linear.weight"], kernel.T)
    np.testing.assert_array_equal(tensors["linear.bias"], bias)
    card = (folder / "README.md").read_text()
    assert "library_name: sentence-transformers\n" in card
    assert "pipeline_tag: sentence-similarity\n" in card


def test_another_model_takes_the_place_of_one(convert):
    convert(5)
    with refused("exists"):
        convert(0)
    _, folder = convert(0, overwrite=True)
    assert kinds(folder) == ["Transformer", "Pooling", "Normalize"]
    assert not (folder / "2_Dense" / "model.safetensors").exists()
    left = {path for name in sentence_modules.NAMES for path in [folder / name]}
    assert {p.name for p in left if p.exists()} == {
        "modules.json",
        "sentence_bert_config.json",
        "config.json",
    }


def test_an_encoder_is_not_pooled_as_the_model_before(convert):
    _, folder = convert(5, text_pooling="cls")
    prompts = folder / "config_sentence_transformers.json"
    prompts.write_text("{}")
    (folder / "README.md").unlink()
    convert(0, format="huggingface", overwrite=True)
    left = {path.name for path in folder.rglob("*") if path.is_file()}
    assert left == {
        *hub_folder.NAMES,
        "spiece.normalization.json",
    } - {"vocab.txt"}


def test_steps_of_the_user_are_not_removed_unasked(convert, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "modules.json").write_text("[]")
    with refused(r"modules\.json exists"):
        convert(0, format="huggingface")


def service_of(folder, **values):
    found = source.find(
        options.from_dict(
            source_options.SourceOptions,
            {"init_checkpoint": str(folder), "task": "embedding", **values},
        )
    )
    service = source.make_service(found, source.make_task(found))
    restoring.restore(service.model, found.checkpoint)
    return service


def test_a_folder_is_embedded_as_it_says(convert, tmp_path):
    """Pooling, projection, length, prompts; and so it is written again."""
    model, folder = convert(5, text_pooling="cls")
    prompts = {"prompts": {"q": "query: "}, "default_prompt_name": "q"}
    (folder / sentence_modules.PROMPTS_NAME).write_text(json.dumps(prompts))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    service = service_of(folder)
    assert service.max_seq_length == 9
    assert service.model.text_pooling == "cls"
    ids = tf.constant([[2, 7, 8, 3]])
    inputs = {"input_ids": ids, "input_mask": tf.ones_like(ids)}
    model.text_pooling = "cls"
    np.testing.assert_allclose(
        service.model(inputs)["embedding"],
        model(inputs)["embedding"],
        atol=LAYER_ATOL,
    )
    assert service_of(folder, text_pooling="max").model.text_pooling == "max"

    again = tmp_path / "again"
    convert_checkpoint.run(
        convert_checkpoint.ConvertOptions(
            from_=str(folder), to=str(again), format="sentence_transformers"
        )
    )
    for name in sentence_modules.NAMES[2:]:
        assert (again / name).read_bytes() == (folder / name).read_bytes()
    assert read(again / "sentence_bert_config.json")["max_seq_length"] == 9
    assert read(again / sentence_modules.PROMPTS_NAME) == prompts
    assert service.text_options.items() >= prompts.items()


def test_another_layer_is_refused_for_vectors_only(convert):
    _, folder = convert(5)
    path = folder / "2_Dense" / "config.json"
    path.write_text(path.read_text().replace("linear.Identity", "x.Tanh"))
    with refused("x.Tanh"):
        service_of(folder)
    assert "projection/bias" not in checkpoint_reader.read(str(folder)).shapes


def test_pooling_is_for_this_format(convert):
    with refused("sentence_transformers"):
        convert(0, format="huggingface", text_pooling="cls")
