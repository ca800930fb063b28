"""One small service of each kind, saved and loaded again."""

import pytest

from albert_tf.text import tokenization
from tests.albert_tf.serving import saved_services
from tests.conftest import tiny_config


@pytest.fixture(scope="session")
def config():
    return tiny_config(num_hidden_layers=2, max_position_embeddings=20)


@pytest.fixture(scope="session")
def tokenizer(tiny_vocab):
    return tokenization.Tokenizer(tiny_vocab)


def _fixture_of(kind):
    @pytest.fixture(scope="session")
    def saved(config, tokenizer, tmp_path_factory):
        service = saved_services.make_service(kind, config, tokenizer)
        path = tmp_path_factory.mktemp(kind) / "model"
        return saved_services.save(service, path)

    return saved


pretrained = _fixture_of("pretraining")
of_pairs = _fixture_of("classifier")
of_numbers = _fixture_of("regression")
of_choices = _fixture_of("race")
