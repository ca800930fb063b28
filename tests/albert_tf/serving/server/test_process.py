"""How the server ends."""

import concurrent.futures
import http.client
import json
import socket
import threading
import time

import numpy as np
import pytest

from albert_tf.serving.server import process
from tests.albert_tf.serving.server import http_server


@pytest.fixture
def slow():
    """A model that answers when it is allowed to; says when it has begun."""
    begun, may_go = threading.Event(), threading.Event()

    def wait(inputs):
        if inputs["text"][0]:  # Not the request that warms up.
            begun.set()
            assert may_go.wait(60)
        return {"length": np.array([len(text) for text in inputs["text"]])}

    signature = http_server.Signature(
        wait, ["length"], text=http_server.texts()
    )
    return http_server.make_model(slow=signature), begun, may_go


def wait_until_it_refuses(port):
    """Wait until it takes no new connection."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.05)


def test_what_has_begun_is_answered(slow):
    model, begun, may_go = slow
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        with http_server.running(http_server.make_app(model)) as (server, port):
            answers = [
                pool.submit(
                    http_server.ask, port, "/models/m/slow", {"text": text}
                )
                for text in ("a", "ab", "abc")
            ]
            assert begun.wait(60)
            server.handle_exit(15, None)
            wait_until_it_refuses(port)
            may_go.set()
        found = [answer.result() for answer in answers]
    assert found == [(200, {"length": n}) for n in (1, 2, 3)]


def test_it_takes_leave_before_it_ends():
    whole = http_server.make_app()
    with http_server.running(whole, farewell=2.0) as (server, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

        def ask(path):
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            return response.status, response.headers["Connection"]

        assert ask("/readyz") == (200, None)
        server.handle_exit(15, None)
        while not whole.is_ending:
            time.sleep(0.01)
        assert ask("/readyz") == (503, "close")
        # A new connection is still accepted.
        status, headers, _ = http_server.fetch(
            port, "POST", "/models/m/measure", {"text": "ab"}
        )
        assert (status, headers["Connection"]) == (200, "close")
        connection.close()


def test_a_connection_that_was_taken_last_may_still_ask():
    whole = http_server.make_app()
    with http_server.running(whole, farewell=2.0) as (server, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.connect()
        server.handle_exit(15, None)
        wait_until_it_refuses(port)
        body = json.dumps({"text": "ab"})
        connection.request("POST", "/models/m/measure", body)
        assert connection.getresponse().status == 200
        connection.close()


def test_a_second_signal_waits_for_nothing():
    server = process.Server(http_server.make_app())
    server.handle_exit(15, None)
    assert (server.should_exit, server.force_exit) == (True, False)
    server.handle_exit(15, None)
    assert (server.should_exit, server.force_exit) == (True, True)
