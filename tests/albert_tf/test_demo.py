"""The page: what it is given over HTTP, by models of every kind."""

import contextlib
import dataclasses
import functools
import http.client
import json
import logging
import re
import socket
import threading

import pytest
import tensorflow as tf

from albert_tf import demo
from albert_tf.common import errors
from albert_tf.serving.client import ask, views
from albert_tf.serving.formats import saved_model
from albert_tf.text import tokenization
from tests.albert_tf.serving import saved_services
from tests.conftest import tiny_config

LENGTH = 32
ARTICLE = "The rain falls on the hill and the old ferry waits. " * 2
# As UTF-8 and as UTF-16 they have other lengths than in characters.
CONTEXTS = [
    "The rain falls on the hill and the old ferry waits at the harbour.",
    "Caf\u00e9 \u00bd is \ufb01ne \u2014 na\u00efve r\u0065\u0301sum\u00e9.",
    "\u4eca\u5929 rain \u65e5\u672c, \ud55c\uad6d\uc5b4 hill",
    "\U0001f600 the rain \U0001f468\u200d\U0001f469\u200d\U0001f467 falls",
    "<b>the rain</b> &amp; \u2028 the hill\r\n \0 waits",
]
PAIR = {"text": "It rains.", "text_pair": "It is wet."}
REQUESTS = [
    ("pretraining", {"text": "The [MASK] and the [MASK] fall."}),
    *(
        ("squad 2.0", {"question": "What falls?", "context": context})
        for context in CONTEXTS
    ),
    (
        "race",
        {
            "article": ARTICLE,
            "question": "The _ waits.",
            "options": ["ferry", "", "hill", "rain"],
        },
    ),
    ("classifier", PAIR),
    ("regression", {"text": "It rains."}),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory, tiny_vocab):
    """What was saved, by kind, made when it is asked for."""
    tokenizer = tokenization.Tokenizer(tiny_vocab)
    config = tiny_config(max_position_embeddings=LENGTH)
    folder = tmp_path_factory.mktemp("models")

    def path_of(kind):
        path = folder / kind
        if not path.exists():
            service = saved_services.make_service(
                kind, config, tokenizer, LENGTH
            )
            saved_model.save(service, str(path))
        return str(path)

    return path_of


@pytest.fixture(scope="module")
def demos(models):
    """A loaded model of each kind, when it is asked for."""
    return functools.cache(lambda kind: views.load(models(kind)))


@pytest.fixture(scope="module")
def server(demos):
    """The server; `demo` is that of labels before each test."""
    with demo.listen("127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def port(server, demos):
    server.demo = demos("classifier")
    return server.server_address[1]


@pytest.fixture
def of_kind(server, demos):
    """Have the server ask a model of another kind; gives its port."""

    def choose(kind):
        server.demo = demos(kind)
        return server.server_address[1]

    return choose


def fetch(port, method, path, body=None, **headers):
    """Status, headers and content of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        names = {k.replace("_", "-"): v for k, v in headers.items()}
        connection.request(method, path, body, names)
        response = connection.getresponse()
        return response.status, response.headers, response.read()


def post(port, body, **headers):
    """Status and JSON of the answer to a request."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    status, _, content = fetch(port, "POST", "/ask", body, **JSON | headers)
    return status, json.loads(content)


# The page.


def test_page_is_served_and_needs_nothing_else(port):
    status, headers, content = fetch(port, "GET", "/")
    page = content.decode()
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert page.startswith("<!DOCTYPE html>")
    links = re.findall(r"""(?:src|href)\s*=\s*["'](.*?)["']""", page)
    assert links == ["data:,"]
    assert not re.search(r"https?:|@import|url\(|innerHTML", page)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "texts"), [*REQUESTS[:2], *REQUESTS[-3:]])
def test_form_asks_for_what_the_model_needs(of_kind, kind, texts):
    status, _, content = fetch(of_kind(kind), "GET", "/form")
    assert status == 200
    form = json.loads(content)
    assert form["max_bytes"] == demo.MAX_BYTES
    assert list(form["fields"]) == list(texts)
    # What stands there at first can be asked.
    status, _ = post(of_kind(kind), form["fields"])
    assert status == 200


# Answers.


@pytest.mark.parametrize(("kind", "texts"), REQUESTS)
def test_answers_are_those_of_the_model(of_kind, demos, kind, texts):
    status, view = post(of_kind(kind), texts)
    assert status == 200
    (answer,) = demos(kind)._signature([ask.Request({}, texts)])
    output = next(name for name in views.KINDS if name in answer)
    expected = dataclasses.asdict(views.KINDS[output].show(texts, answer))
    assert view == json.loads(json.dumps(expected))
    if kind.startswith("squad"):
        assert [marked for _, marked in view["passage"]] == [False, True, False]
        assert view["passage"][1][0] == answer["answer"]
        assert "".join(text for text, _ in view["passage"]) == texts["context"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"text": "What', "this is not JSON"),
        (b"\xff", "not UTF-8"),
        ({"text": "What?"}, "has no 'text_pair'"),
        ({"text": "a", "text_pair": ""}, "text pair is empty"),
    ],
)
def test_bad_request_is_told_what_is_wrong(port, body, message):
    status, content = post(port, body)
    assert status == 400
    assert list(content) == ["error"]
    assert message in content["error"]


def test_longest_request_is_answered(port):
    texts = {"text": "", "text_pair": "It is wet."}
    texts["text"] = "a" * (demo.MAX_BYTES - len(json.dumps(texts)))
    status, view = post(port, texts)
    assert status == 200
    assert view["notes"]


JSON = {"Content_Type": "application/json"}


@pytest.mark.parametrize(
    ("request_", "headers", "status", "message"),
    [
        ("GET /x", {}, 404, "nothing here"),
        ("GET /ask", {}, 404, "nothing here"),
        ("GET /../demo.py", {}, 404, "nothing here"),
        ("POST /", {}, 404, "Use /ask"),
        # Nothing is read of a request that is too long.
        ("POST /ask", {"Content_Length": "1000001"}, 413, "most 1000000"),
        ("POST /ask", {"Content_Length": "9" * 5000}, 413, "most 1000000"),
        ("POST /ask", {"Content_Length": "-1"}, 413, "most 1000000 are"),
        ("POST /ask", {"Content_Length": ""}, 413, "untold bytes"),
        # Forms and pages of other sites.
        ("POST /ask", {"Content_Type": "text/plain"}, 415, "/json"),
        ("POST /ask", {"Origin": "http://evil.example"}, 403, "evil"),
        ("POST /ask", {"Origin": "null"}, 403, "page of null"),
        ("POST /ask", {"Origin": "http://localhost:1"}, 403, "localhost:1"),
        ("POST /ask", {"Host": "evil.example"}, 421, "no site"),
        ("GET /", {"Host": "evil.example:{0}"}, 421, "no site"),
        ("GET /form", {"Host": "127.0.0.1.evil.example"}, 421, "no site"),
        ("GET /", {"Host": ""}, 421, "no site"),
    ],
)
def test_what_is_refused(port, request_, headers, status, message):
    method, path = request_.split()
    body = None
    if method == "POST":
        headers = JSON | headers
        body = b"" if "Content_Length" in headers else b"{}"
    headers = {name: text.format(port) for name, text in headers.items()}
    found, _, content = fetch(port, method, path, body, **headers)
    assert found == status
    assert message in json.loads(content)["error"]


@pytest.mark.parametrize(
    "host", ["localhost:{0}", "LOCALHOST", "127.0.0.1:{0}", "[::1]:{0}"]
)
def test_names_of_this_computer_are_answered(port, host):
    host = host.format(port)
    status, _, _ = fetch(port, "GET", "/form", Host=host)
    assert status == 200
    origin = f"http://{host}"
    status, _ = post(port, PAIR, Host=host, Origin=origin)
    assert status == 200


def test_given_host_and_own_name_are_answered_where_others_may_ask():
    with demo.listen("0.0.0.0", 0) as server:
        for host in ("0.0.0.0:1", f"{socket.gethostname()}:1", "10.0.0.7:1"):
            assert server.is_asked_for(host, "10.0.0.7")
        for host in ("evil.example:1", "10.0.0.8:1", "x10.0.0.7"):
            assert not server.is_asked_for(host, "10.0.0.7")


def test_fifty_connections_at_once_are_answered():
    with demo.listen("127.0.0.1", 0) as server, contextlib.ExitStack() as stack:
        # None is accepted before all of them wait.
        waiting = [
            stack.enter_context(
                socket.create_connection(server.server_address, 1.0)
            )
            for _ in range(50)
        ]
        for connection in waiting:
            connection.settimeout(60.0)
            connection.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        answers = [connection.recv(15) for connection in waiting]
        server.shutdown()
        thread.join()
    assert answers == [b"HTTP/1.0 200 OK"] * 50


def test_error_of_tensorflow_is_shown(server, port):
    class Failing:
        inputs = {"text": 1, "text_pair": 1}

        def __call__(self, requests):
            raise tf.errors.InvalidArgumentError(None, None, "indices[0]")

    server.demo = views.Demo(Failing(), views.KINDS["label"])
    status, content = post(port, PAIR)
    assert status == 500
    assert content == {"error": "in TensorFlow: indices[0]"}


# The start.


def test_run_says_where_the_page_is(models, monkeypatch, caplog):
    servers = []

    def serve(server):
        servers.append(server)

    monkeypatch.setattr(demo.Server, "serve_forever", serve)
    settings = demo.DemoPageOptions(
        saved_model=models("regression"), port=0, host="0.0.0.0"
    )
    with caplog.at_level(logging.INFO, logger="absl"):
        demo.run(settings)
    port = servers[0].server_address[1]
    assert f"Open http://0.0.0.0:{port}." in caplog.text
    assert "--host=0.0.0.0: others in the network can ask" in caplog.text


def test_used_port_is_named_before_the_model_is_loaded(port):
    with pytest.raises(errors.UserError, match=f"--port={port} of .*in use"):
        demo.run(demo.DemoPageOptions(saved_model="missing", port=port))


def test_model_that_has_nothing_to_show_is_refused(tmp_path):
    class Encoder(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def embed(self, text):
            return {"pooled_output": tf.strings.length(text)}

        # As another project might name its own.
        @tf.function(
            input_signature=[tf.TensorSpec([None], tf.string, "words")]
        )
        def classify(self, words):
            return {"label": words}

    model, path = Encoder(), str(tmp_path / "1")
    signatures = {"serving_default": model.embed, "other": model.classify}
    tf.saved_model.save(model, path, signatures=signatures)
    with pytest.raises(
        errors.UserError, match="nothing to show: .*other, serving_default"
    ):
        views.load(path)
