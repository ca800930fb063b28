"""A server with functions for models."""

import pytest

from tests.albert_tf.serving.server import http_server


@pytest.fixture(scope="session")
def port():
    with http_server.running(http_server.make_app()) as (_, port):
        yield port
