"""Who may ask, how much, and what is counted."""

import asyncio
import contextlib
import re

import pytest
from starlette import exceptions

from albert_tf.serving.server import gate
from tests.albert_tf.serving.server import http_server

LOCAL = ("127.0.0.1", "localhost", "[::1]")
PATH = "/models/m/measure"


@pytest.fixture(scope="module")
def local():
    with http_server.running(http_server.make_app(hosts=LOCAL)) as (_, port):
        yield port


@pytest.mark.parametrize(
    ("headers", "status", "message"),
    [
        ({"Origin": "http://evil.example"}, 403, "evil"),
        ({"Origin": "null"}, 403, "page of null"),
        ({"Origin": "http://localhost:1"}, 403, "localhost:1"),
        ({"Host": "evil.example"}, 421, "no site"),
        ({"Host": "127.0.0.1.evil.example"}, 421, "no site"),
        ({"Host": "evil.example:{0}"}, 421, "no site"),
        ({"Host": ""}, 421, "no site"),
    ],
)
def test_pages_of_other_sites_are_refused(local, headers, status, message):
    headers = {name: text.format(local) for name, text in headers.items()}
    found, content = http_server.ask(local, PATH, {"text": "a"}, **headers)
    assert found == status
    assert message in content["error"]


@pytest.mark.parametrize(
    "host", ["localhost:{0}", "LOCALHOST", "127.0.0.1:{0}", "[::1]:{0}"]
)
def test_names_of_this_computer_are_answered(local, host):
    host = host.format(local)
    headers = {"Host": host, "Origin": f"http://{host}"}
    status, _ = http_server.ask(local, PATH, {"text": "a"}, **headers)
    assert status == 200


def test_every_name_is_answered_where_others_may_ask(port):
    status, _ = http_server.ask(port, PATH, {"text": "a"}, Host="models.lan")
    assert status == 200


def test_longest_request_is_read_and_no_longer_one(port):
    size = http_server.MAX_BYTES
    whole = b'{"text": "a"' + b" " * (size - 13) + b"}"
    assert len(whole) == size
    assert http_server.ask(port, PATH, whole) == (200, {"length": 1})
    status, content = http_server.ask(port, PATH, whole + b" ")
    assert status == 413
    assert content == {"error": f"A request may have {size} bytes."}


@pytest.mark.parametrize(("last", "refused"), [(2, None), (3, "413")])
def test_parts_of_a_request_count_together(last, refused):
    """As where its length is not told."""
    parts = [b"a" * last, b"aaaa", b"aaaa"]

    async def receive():
        return {"type": "http.request", "body": parts.pop()}

    async def read(scope, receive, send):
        while parts:
            await receive()

    whole, expected = gate.Gate(read, 10, ()), contextlib.nullcontext()
    if refused:
        expected = pytest.raises(exceptions.HTTPException, match=refused)
    with expected:
        asyncio.run(whole({"type": "http", "headers": []}, receive, None))


def test_requests_and_batches_are_counted():
    with http_server.running(http_server.make_app()) as (_, port):
        http_server.ask(port, PATH, [{"text": "a"}] * 3)
        http_server.ask(port, PATH, {"text": 1})
        http_server.fetch(port, "GET", "/nothing")
        _, headers, content = http_server.fetch(port, "GET", "/metrics")
    assert headers["Content-Type"].startswith("text/plain")
    found = dict(re.findall(r"^(albert_\S+) (\S+)$", content.decode(), re.M))
    name = 'albert_request_seconds_count{{path="{}",status="{}"}}'
    assert found[name.format(PATH, 200)] == "1.0"
    assert found[name.format(PATH, 400)] == "1.0"
    assert found[name.format("other", 404)] == "1.0"
    labels = '{model="m",signature="measure"}'
    assert found[f"albert_batch_rows_sum{labels}"] == "3.0"
    assert found[f"albert_waiting_rows{labels}"] == "0.0"
    assert b"process_resident_memory_bytes" in content


def test_answers_say_that_they_are_what_they_say(port):
    _, headers, _ = http_server.fetch(port, "GET", "/")
    assert headers["X-Content-Type-Options"] == "nosniff"
