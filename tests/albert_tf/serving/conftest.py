"""One small service of each kind, saved and loaded again."""

import pytest

from albert_tf.model import modeling
from albert_tf.model.heads import classification, pretraining
from albert_tf.serving.services import (
    choice_service,
    encoder_service,
    text_service,
)
from albert_tf.text import tokenization
from tests.albert_tf.serving import saved_services


@pytest.fixture(scope="session")
def config():
    return modeling.AlbertConfig(
        vocab_size=400,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=20,
    )


@pytest.fixture(scope="session")
def tokenizer(tiny_vocab):
    return tokenization.Tokenizer(tiny_vocab)


@pytest.fixture(scope="session")
def pretrained(config, tokenizer, tmp_path_factory):
    model = saved_services.spread(
        pretraining.AlbertPretrainer(modeling.AlbertModel(config))
    )
    service = encoder_service.PretrainedService(
        model, tokenizer, saved_services.MAX_SEQ_LENGTH
    )
    return saved_services.save(
        service, tmp_path_factory.mktemp("pretrained") / "model"
    )


@pytest.fixture(scope="session")
def of_pairs(config, tokenizer, tmp_path_factory):
    service = saved_services.make_classifier(config, tokenizer, pairs=True)
    return saved_services.save(
        service, tmp_path_factory.mktemp("pairs") / "model"
    )


@pytest.fixture(scope="session")
def of_singles(config, tokenizer, tmp_path_factory):
    service = saved_services.make_classifier(config, tokenizer, pairs=False)
    return saved_services.save(
        service, tmp_path_factory.mktemp("singles") / "model"
    )


@pytest.fixture(scope="session")
def bare(config, tokenizer, tmp_path_factory):
    encoder = saved_services.spread(modeling.AlbertModel(config))
    service = encoder_service.EncoderService(
        encoder, tokenizer, saved_services.MAX_SEQ_LENGTH
    )
    return saved_services.save(
        service, tmp_path_factory.mktemp("bare") / "model"
    )


@pytest.fixture(scope="session")
def of_numbers(config, tokenizer, tmp_path_factory):
    model = classification.AlbertClassifier(modeling.AlbertModel(config), 1)
    service = text_service.RegressionService(
        saved_services.spread(model),
        tokenizer,
        saved_services.MAX_SEQ_LENGTH,
        pairs=True,
    )
    return saved_services.save(
        service, tmp_path_factory.mktemp("numbers") / "model"
    )


@pytest.fixture(scope="session")
def of_choices(config, tokenizer, tmp_path_factory):
    model = classification.AlbertMultipleChoice(modeling.AlbertModel(config))
    service = choice_service.ChoiceService(
        saved_services.spread(model),
        tokenizer,
        saved_services.MAX_SEQ_LENGTH,
        saved_services.RACE,
    )
    return saved_services.save(
        service, tmp_path_factory.mktemp("choices") / "model"
    )
