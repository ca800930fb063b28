"""The command: what is served, errors at start, and a process with signals."""

import importlib
import json
import logging
import os
import re
import signal
import socket

import pytest
import tensorflow as tf
from starlette import datastructures

from albert_tf import serve
from albert_tf.serving.server import process
from tests.albert_tf.serving.server import http_server
from tests.conftest import refused
from tests.end_to_end import processes


class Echo(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def echo(self, text):
        return {"label": text}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`echo` with the versions 2 and 10, and what is no version."""
    folder = tmp_path_factory.mktemp("served")
    module = Echo()
    signatures = {"serving_default": module.echo}
    for version in ("2", "10", "9.partial"):
        path = str(folder / "echo" / version)
        tf.saved_model.save(module, path, signatures=signatures)
    (folder / "echo" / "11").mkdir()
    (folder / "empty").mkdir()
    (folder / "a file").touch()
    return folder


def options_of(folder, *words, **others):
    joined = ",".join(word.format(folder) for word in words)
    return serve.ServeOptions(saved_model=joined, **others)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["{}/echo"], {"echo": ("10", "echo/10")}),
        (["{}/echo/"], {"echo": ("10", "echo/10")}),
        (["{}/echo/2"], {"echo": ("2", "echo/2")}),
        (["{}/echo/9.partial"], {"9.partial": ("1", "echo/9.partial")}),
        (
            ["a={}/echo", " b-2.x={}/echo/2", ""],
            {"a": ("10", "echo/10"), "b-2.x": ("2", "echo/2")},
        ),
    ],
)
def test_names_and_versions(folder, words, found):
    expected = {
        name: (version, os.path.join(folder, path))
        for name, (version, path) in found.items()
    }
    assert options_of(folder, *words).folders() == expected


def test_version_is_that_of_the_folder_one_stands_in(folder, monkeypatch):
    monkeypatch.chdir(folder / "echo" / "10")
    assert options_of(folder, ".").folders() == {"echo": ("10", ".")}
    monkeypatch.chdir(folder / "echo")
    assert options_of(folder, ".").folders() == {"echo": ("10", "./10")}


def test_used_port_is_named_before_the_model_is_loaded(folder):
    with serve.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with refused(f"--port={port} of .*in use"):
            serve.run(options_of(folder, "{}/empty", port=port))


def test_missing_extra_is_named(folder, monkeypatch):
    found = importlib.import_module

    def import_module(name):
        if name == "uvicorn":
            raise ImportError("No module named 'uvicorn'")
        return found(name)

    monkeypatch.setattr(importlib, "import_module", import_module)
    with refused(
        "needs uvicorn.* Install it: pip install fastapi",
    ):
        serve.run(options_of(folder, "{}/echo", port=0))


def test_it_says_where_it_is(folder, monkeypatch, caplog):
    monkeypatch.setattr(process.Server, "run", lambda *_: None)
    with caplog.at_level(logging.INFO, logger="absl"):
        serve.run(options_of(folder, "{}/echo", port=0, host="0.0.0.0"))
    assert re.search(
        r"Serving echo \(version 10\). Open http://0.0.0.0:\d+.", caplog.text
    )
    assert "--host=0.0.0.0: others in the network can ask" in caplog.text


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.2", "127.0.0.2"),
        ("::1", "[::1]"),
        ("localhost", "localhost"),
        ("192.0.2.1", None),
        ("::", None),
        ("a.example", None),
    ],
)
def test_only_this_computer_can_reach_its_loop(
    folder, monkeypatch, caplog, host, shown
):
    served, listen = [], serve.listen
    monkeypatch.setattr(serve, "listen", lambda _, port: listen("", port))
    monkeypatch.setattr(
        process.Server, "run", lambda self, _: served.append(self._app)
    )
    with caplog.at_level(logging.INFO, logger="absl"):
        serve.run(options_of(folder, "{}/echo", port=0, host=host))
    assert ("others in the network" in caplog.text) == (shown is None)
    if shown:
        assert f"Open http://{shown}:" in caplog.text
    names = ["127.0.0.1", "localhost", "[::1]", shown or "x", "evil.example"]
    refused = [
        served[0]._refuse(datastructures.Headers({"host": f"{name}:80"}))
        for name in names
    ]
    assert [bool(answer) for answer in refused] == [False] * 4 + [bool(shown)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_serves_until_a_signal(folder, number):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    model = f"m={folder}/echo"
    server = processes.start("albert_tf.serve", saved_model=model, port=port)
    for line in server.stdout:
        if "Serving m (version 10)" in line:
            break
    body = {"instances": ["It rains."]}
    answer = http_server.ask(port, "/v1/models/m:predict", body)
    assert answer == (200, {"predictions": ["It rains."]})
    page = http_server.fetch(port, "GET", "/v1/models/m")[2]
    assert json.loads(page)["model_version_status"][0]["version"] == "10"
    server.send_signal(number)
    processes.finish(server)
