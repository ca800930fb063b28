r"""Serve SavedModels over HTTP: JSON, TensorFlow Serving's REST forms, a page.

    python -m albert_tf.serve --saved_model=rte=served/rte \
        --saved_model=names=served/names/1

Then open http://127.0.0.1:8501 for the page, /docs for all endpoints, and

    curl http://127.0.0.1:8501/models/rte/serving_default \
        -d '{"text": "It rains.", "text_pair": "It is wet."}'

A path is an export, or a folder of numbered exports, whose newest is served.
Without NAME= the model is called as its folder. Requests that wait while others
are computed are computed together. SIGTERM or Ctrl-C ends it when all requests
that have begun are answered. It needs the packages of the extra `serve`.
"""

import dataclasses
import ipaddress
import os
import re
import socket

from absl import logging

from albert_tf.common import errors, files, imports, options, packages, ranges
from albert_tf.common.options import checked, option, shown

app = imports.later("albert_tf.serving.server.app")
batching = imports.later("albert_tf.serving.server.batching")
models = imports.later("albert_tf.serving.server.models")
process = imports.later("albert_tf.serving.server.process")

_NAMED = re.compile(r"(?:([\w.-]+)=)?(.+)", re.ASCII | re.DOTALL)
_LOCAL = ("127.0.0.1", "localhost", "[::1]")


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Model="saved_model",
    Training="batch_size",
    Output="port host batch_wait max_waiting max_body_bytes",
)
class ServeOptions:
    """Options of serve."""

    saved_model: str = option(
        help="NAME=PATH, for each model: an --export_dir of albert_tf.export, "
        "or the folder of its numbered versions. May be repeated.",
        positional=True,
        repeated=True,
    )
    port: int = option(
        8501,
        "Port to listen at. 0 takes any free one.",
        within=ranges.Range(0, 2**16 - 1),
    )
    host: str = option(
        "127.0.0.1",
        "Address to listen at. The default is for this computer only, 0.0.0.0 "
        "for every computer that can reach it.",
    )
    batch_size: int = option(
        32,
        "Rows that are computed together. Requests of more are divided.",
        within=ranges.Range(1, 4096),
    )
    batch_wait: float = option(
        0.0,
        "Milliseconds that a request waits for others to be computed with. "
        "With 0 it waits only while others are computed.",
        within=ranges.Range(0, 1000),
    )
    max_waiting: int = option(
        256,
        "Rows of a request; where so many wait, the next ones get status 503.",
        within=ranges.Range(1, 2**20),
    )
    max_body_bytes: int = option(
        1_000_000, "Bytes of a request.", within=ranges.Range(1, 2**30)
    )

    def __post_init__(self) -> None:
        if self.max_waiting < self.batch_size:
            raise errors.UserError(
                f"`max_waiting={self.max_waiting}` is below "
                f"`batch_size={self.batch_size}`. A whole batch must be able "
                "to wait."
            )

    def folders(self) -> dict[str, tuple[str, str]]:
        folders: dict[str, tuple[str, str]] = {}
        if not self.saved_model.strip(", "):
            raise errors.UserError("`saved_model` is empty. Name a model.")
        for model in filter(None, map(str.strip, self.saved_model.split(","))):
            match = _NAMED.fullmatch(model)
            assert match
            path = os.path.expanduser(match[2])
            version, folder = _newest(path)
            name = match[1] or _name(path)
            if name in folders:
                raise errors.UserError(
                    f"`saved_model`: {folders[name][1]} and {folder} are both "
                    f"called {name!r}. Give one another name, as NAME=PATH."
                )
            folders[name] = version, folder
        return folders


def _newest(path: str) -> tuple[str, str]:
    """Return version and folder of an export, or of the newest in a folder."""
    files.refuse_file(path, "saved_model")
    if not files.exists(path):
        raise errors.UserError(
            f"`saved_model={path}` does not exist.{files.suggest(path)} Check "
            f"the path (the current folder is {os.getcwd()})."
        )
    whole = path if files.is_remote(path) else os.path.abspath(path)
    name = whole.rstrip("/").split("/")[-1]
    versions = [
        version
        for version in files.list_folder(path)
        if version.isdecimal()
        and files.exists(os.path.join(path, version, "saved_model.pb"))
    ]
    if versions and not files.exists(os.path.join(path, "saved_model.pb")):
        name = max(versions, key=int)
        path = os.path.join(path, name)
    return (name if name.isdecimal() else "1"), path


def _name(path: str) -> str:
    """Return how a model is called: as its folder, without a version."""
    path = path if files.is_remote(path) else os.path.abspath(path)
    parts = [part for part in path.split("/") if not part.isdecimal()]
    name = parts[-1] if parts else ""
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise errors.UserError(
            f"`saved_model={path}` cannot be a name in an address. Give one as "
            "NAME=PATH."
        )
    return name


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server(
            (host, port), family=family, backlog=1024
        )
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise errors.UserError(
            f"--port={port} of --host={host} cannot be had: {reason}. Choose "
            "another port above 1023, or 0 for any free one, and an address "
            "of this computer."
        ) from None
    # Accepted connections inherit it; asyncio sets it for other sockets only.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _is_local(host: str) -> bool:
    """Tell whether only this computer can reach an address to listen at."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def run(settings: ServeOptions) -> None:
    folders = settings.folders()
    packages.require(
        *("fastapi", "fastapi_offline", "prometheus_client", "uvicorn"),
        install="pip install fastapi fastapi-offline prometheus-client uvicorn",
        argument="serve",
    )
    with listen(settings.host, settings.port) as listener:
        limits = batching.Limits(
            settings.batch_size,
            settings.max_waiting,
            settings.batch_wait / 1000,
        )
        served = [
            models.load(name, version, folder)
            for name, (version, folder) in folders.items()
        ]
        host, is_local = settings.host, _is_local(settings.host)
        if not is_local:
            logging.warning(
                "--host=%s: others in the network can ask too.", host
            )
        if ":" in host:
            host = f"[{host}]"
        port = listener.getsockname()[1]
        logging.info(
            "Serving %s. Open http://%s:%d. Ctrl-C ends.",
            ", ".join(
                f"{model.name} (version {model.version})" for model in served
            ),
            host,
            port,
        )
        hosts = (*_LOCAL, host.lower()) if is_local else ()
        whole = app.make(served, limits, settings.max_body_bytes, hosts)
        process.Server(whole).run([listener])


if __name__ == "__main__":
    options.run_script(run, ServeOptions)
