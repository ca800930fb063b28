"""The page, the endpoints as a whole, and real models behind them."""

import concurrent.futures
import dataclasses
import json
import re
import socket
import threading

import pytest
import tensorflow as tf

from albert_tf.serving.client import ask
from albert_tf.serving.server import batching, models
from tests.albert_tf.serving.server import http_server
from tests.conftest import LAYER_ATOL

MEASURE = "/models/m/measure"


def get(port, path):
    _, _, content = http_server.fetch(port, "GET", path)
    return json.loads(content)


def test_page_is_served_and_needs_nothing_else(port):
    status, headers, content = http_server.fetch(port, "GET", "/")
    page = content.decode()
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert page.startswith("<!DOCTYPE html>")
    links = re.findall(r"""(?:src|href)\s*=\s*["'](.*?)["']""", page)
    assert links == ["data:,"]
    assert not re.search(r"https?:|@import|url\(|innerHTML", page)


def test_page_of_the_endpoints_needs_nothing_else(port):
    status, _, content = http_server.fetch(port, "GET", "/docs")
    assert status == 200
    links = re.findall(
        r"""(?:src|href)\s*=\s*["'](.*?)["']""", content.decode()
    )
    assert links
    for link in links:
        assert link.startswith("/")
        assert http_server.fetch(port, "GET", link)[0] == 200


def test_endpoints_are_described(port):
    content = get(port, "/openapi.json")
    paths = {
        path: body
        for path, methods in content["paths"].items()
        for body in methods.values()
    }
    assert set(paths) == {
        *("/healthz", "/readyz", "/metrics"),
        *("/models/m/serving_default", MEASURE, "/models/m/add"),
        "/models/m/mask",
        *("/v1/models/m", "/v1/models/m:predict", "/v1/models/m/metadata"),
    }
    body = paths["/models/m/add"]["requestBody"]["content"]
    row, rows = body["application/json"]["schema"]["anyOf"]
    assert row["required"] == ["ids"]
    assert row["properties"]["ids"]["items"]["type"] == "integer"
    assert rows["items"] == row and rows["maxItems"] == 8


def test_forms_are_those_of_models_that_can_be_shown():
    bare = http_server.Signature(lambda x: x, ["x"], x=http_server.IDS)
    served = [
        http_server.make_model("b"),
        http_server.make_model("bare", serving_default=bare),
        http_server.make_model("a"),
    ]
    with http_server.running(http_server.make_app(*served)) as (_, port):
        content = get(port, "/page")
    assert list(content["forms"]) == ["b", "a"]
    assert content["max_bytes"] == http_server.MAX_BYTES


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/x", 404, "nothing at /x. See /docs"),
        ("GET", "/../serve.py", 404, "nothing at"),
        ("POST", "/models/m/measures", 404, "nothing at /models/m/measures"),
        ("POST", "/v1/models/n:predict", 404, "nothing at /v1/models/n:predic"),
        ("GET", "/v1/models/m/versions/8", 404, "nothing at"),
        ("GET", MEASURE, 405, "Use POST. See /docs"),
        ("POST", "/", 405, "Use GET. See /docs"),
    ],
)
def test_what_is_not_there(port, method, path, status, message):
    found, _, content = http_server.fetch(port, method, path)
    assert found == status
    assert message in json.loads(content)["error"]


def test_it_is_healthy_and_ready(port):
    assert get(port, "/healthz") == get(port, "/readyz") == {"status": "ok"}


def test_full_queue_is_told_and_a_bad_request_harms_nobody():
    """While the first one is computed, ten rows come; eight may wait."""
    begun, may_go = threading.Event(), threading.Event()

    def measure(inputs):
        if "first" in inputs["text"].tolist():
            begun.set()
            assert may_go.wait(60)
        return http_server.measure(inputs)

    signature = http_server.Signature(
        measure, ["length"], text=http_server.texts()
    )
    served = http_server.make_model(measure=signature)
    whole = http_server.make_app(served)

    def request(text):
        return http_server.fetch(
            port, "POST", MEASURE, json.dumps({"text": text}).encode()
        )

    with (
        http_server.running(whole) as (_, port),
        concurrent.futures.ThreadPoolExecutor(12) as pool,
    ):
        first = pool.submit(request, "first")
        assert begun.wait(60)
        texts = ["a" * 100, *(["ab"] * 9)]  # The first is too long.
        others = [pool.submit(request, text) for text in texts]
        done = concurrent.futures.wait(
            others, return_when=concurrent.futures.FIRST_COMPLETED
        ).done
        while len(done) < 2:
            done = {other for other in others if other.done()}
        for refused in done:
            status, headers, content = refused.result()
            assert (status, headers["Retry-After"]) == (503, "1")
            assert b"Too many requests wait" in content
        may_go.set()
        statuses = [other.result()[0] for other in others]
    assert first.result()[2] == b'{"length":5}'
    assert statuses.count(503) == 2
    assert statuses[0] in (400, 503)
    assert set(statuses[1:]) <= {200, 503}


OURS = "The server failed. Its log says why."
LONG = "x" * 301


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ZeroDivisionError(), 500, OURS),
        (tf.errors.InternalError(None, None, LONG), 500, LONG[1:]),
        (tf.errors.InvalidArgumentError(None, None, LONG), 400, LONG[1:]),
    ],
)
def test_an_error_of_ours_is_an_error_of_the_server(
    caplog, error, status, message
):
    def fail(inputs):
        raise error

    signature = http_server.Signature(fail, ["x"], text=http_server.texts())
    whole = http_server.make_app(http_server.make_model(measure=signature))
    with http_server.running(whole) as (_, port):
        found = http_server.ask(port, MEASURE, {"text": "a"})
    assert found == (status, {"error": message})
    assert ("ZeroDivisionError" in caplog.text) == (message == OURS)


def test_a_client_that_leaves_is_no_error(caplog):
    head = f"POST {MEASURE} HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
    with http_server.running(http_server.make_app()) as (_, port):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head.encode() + b'{"te')
        name = f'path="{MEASURE}",status="400"'
        counted = ""
        while name not in counted:  # Until its end was noticed.
            counted = http_server.fetch(port, "GET", "/metrics")[2].decode()
    assert not caplog.text


# Real models.


@pytest.fixture(scope="module")
def real(pretrained, of_pairs, of_choices):
    """A server of them; and their signatures, asked without it."""
    limits = batching.Limits(batch_size=16, max_waiting=64)
    saved = {"fill": pretrained, "pairs": of_pairs, "race": of_choices}
    served = [models.load(k, "1", str(x.path)) for k, x in saved.items()]
    whole = http_server.make_app(*served, limits=limits)
    with http_server.running(whole) as (_, port):
        yield port, {model.name: model for model in served}


def rounded(value):
    """The same with numbers that can be compared."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    if isinstance(value, float):
        return pytest.approx(value, abs=LAYER_ATOL)
    return value


RACE = {"article": "It rains.", "question": "What _?"}
ASKED = [
    ("fill", "fill_mask", {"text": "The [MASK] rains."}),
    ("fill", "fill_mask", {"text": "No gap."}),
    ("fill", "fill_mask", {"text": "[MASK] and [MASK]."}),
    ("pairs", "serving_default", {"text": "It rains.", "text_pair": "Wet."}),
    ("pairs", "serving_default", {"text": "", "text_pair": ""}),
    ("race", "serving_default", {**RACE, "options": ["a", "rain", "", ""]}),
]


@pytest.mark.slow
def test_answers_are_those_of_the_models_whoever_asks_beside(real):
    port, served = real
    expected = [
        served[model].signatures[name]([ask.Request({}, texts)])[0]
        for model, name, texts in ASKED
    ]
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        found = list(
            pool.map(
                lambda asked: http_server.ask(
                    port, f"/models/{asked[0]}/{asked[1]}", asked[2]
                ),
                ASKED * 4,
            )
        )
    assert found == [(200, rounded(answer)) for answer in expected] * 4


@pytest.mark.slow
def test_bad_ids_are_the_fault_of_one_request(real):
    port, _ = real
    path = "/models/pairs/tokens"
    good = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), [1, 1])
    rows = [good, {**good, "input_ids": [1, 99_999]}, good]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        found = list(
            pool.map(lambda row: http_server.ask(port, path, row), rows)
        )
    assert [status for status, _ in found] == [200, 400, 200]
    assert re.fullmatch(
        r"indices\[.*\] = 99999 is not in \[0, \d+\)", found[1][1]["error"]
    )
    long = dict.fromkeys(good, [1] * 21)
    _, content = http_server.ask(port, path, long)
    assert content == {
        "error": "input_ids are longer than the 20 positions of the model"
    }


@pytest.mark.slow
@pytest.mark.parametrize("model", ["fill", "pairs", "race"])
def test_samples_of_the_page_can_be_asked(real, model):
    port, served = real
    form = served[model].form
    fields = get(port, "/page")["forms"][model]["fields"]
    status, view = http_server.ask(port, f"/page/{model}", fields)
    assert status == 200
    signature = served[model].signatures[form.signature]
    (answer,) = signature([ask.Request({}, fields)])
    expected = dataclasses.asdict(form.kind.show(fields, answer))
    assert view == rounded(json.loads(json.dumps(expected)))
