r"""Ask a SavedModel on a page in the browser.

    python -m albert_tf.demo --saved_model=served/rte/1

Then open http://127.0.0.1:7860. The form depends on the
model: a sentence with [MASK], a question and a paragraph, one text or two, or
an article with options. An export of --task=encoder has nothing to show.

The page is for a look at a model, not for the public: there is no encryption,
no password, and no limit on how often somebody asks.
"""

import contextlib
import dataclasses
import http.server
import os
import pathlib
import re
import socket
import threading
from typing import Any

from absl import logging

from albert_tf.common import errors, options, ranges, strict_json
from albert_tf.common.options import checked, option


@dataclasses.dataclass(frozen=True)
@checked
class DemoPageOptions:
    """Options of demo."""

    saved_model: str = option(
        help="The --export_dir of albert_tf.export.", positional=True
    )
    port: int = option(
        7860,
        "Port of the page. 0 takes any free one.",
        within=ranges.Range(0, 2**16 - 1),
    )
    host: str = option(
        "127.0.0.1",
        "Address to listen at. The default is for this computer only, 0.0.0.0 "
        "for every computer that can reach it.",
    )


if __name__ == "__main__":
    options.check_command_line(DemoPageOptions)

import tensorflow as tf

from albert_tf.serving.client import views

# A longer request is refused before it is read.
MAX_BYTES = 1_000_000
PAGE = pathlib.Path(__file__).with_name("demo_page.html")

_DIGITS = re.compile(r"[0-9]{1,12}")
_LOCAL = ("127.0.0.1", "localhost")
_ALL = ("", "0.0.0.0")  # noqa: S104 - the user may choose it.
_SECONDS = 60  # A browser that sends nothing for so long is hung up on.
# The page needs nothing but itself and its server.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline';"
    " connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)


class Server(http.server.ThreadingHTTPServer):
    """The HTTP server.

    Each connection has a thread. At most one thread for each core uses the
    model at a time, the others wait.
    """

    # Connections that may wait to be accepted; more are refused.
    request_queue_size = 128
    demo: views.Demo  # To be set before it serves.

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, Handler)
        self.host = address[0]
        self.turns = threading.BoundedSemaphore(os.cpu_count() or 1)

    def is_asked_for(self, host: str, reached: str) -> bool:
        """Tell whether a `Host` header names this server.

        By DNS rebinding another site can send a browser's requests here, but
        with its own name in the header. Any port is allowed: a tunnel may
        change it.
        """
        names = {"localhost", "127.0.0.1", "[::1]", self.host, reached}
        if self.host in _ALL:
            names.add(socket.gethostname())
        name = re.sub(r":[0-9]{1,5}$", "", host)
        return name.lower() in {name.lower() for name in names}


def listen(host: str, port: int) -> Server:
    """Return a server that listens."""
    try:
        return Server((host, port))
    except OSError as error:
        raise errors.UserError(
            f"--port={port} of --host={host} cannot be had: {error.strerror}. "
            "Choose another port above 1023, or 0 for any free one, and an "
            "address of this computer."
        ) from None


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the page and the form, and answers requests."""

    server: Server
    timeout = _SECONDS

    def do_GET(self) -> None:  # noqa: N802 - http.server's name.
        """Serve the page at `/`, and `Demo.form` at `/form`."""
        if self._is_from_elsewhere():
            return
        if self.path == "/":
            self._send(200, "text/html", PAGE.read_bytes())
        elif self.path == "/form":
            form = self.server.demo.form()
            self._send_json(200, {**form, "max_bytes": MAX_BYTES})
        else:
            self._send_error(404, "There is nothing here. Open / instead.")

    def do_POST(self) -> None:  # noqa: N802 - http.server's name.
        """Answer at `/ask`: a `View`, or an `error`."""
        if self._is_from_elsewhere():
            return
        length = self.headers.get("Content-Length", "")
        if self.path != "/ask":
            self._send_error(404, "There is nothing here. Use /ask.")
        elif self.headers.get_content_type() != "application/json":
            # Other sites cannot make a browser send JSON here.
            self._send_error(415, "A request is of type application/json.")
        elif not _DIGITS.fullmatch(length) or int(length) > MAX_BYTES:
            self._send_error(
                413,
                f"The request has {length or 'untold'} bytes; at most "
                f"{MAX_BYTES} are read. Shorten the text.",
            )
        else:
            self._answer(self.rfile.read(int(length)))

    def _is_from_elsewhere(self) -> bool:
        """Refuse a request from the page of another site."""
        host = self.headers.get("Host", "")
        origin = self.headers.get("Origin")
        if not self.server.is_asked_for(host, self.connection.getsockname()[0]):
            self._send_error(
                421,
                f"There is no site {host!r} here. Open the address that the "
                "demo has printed.",
            )
        elif origin not in (None, f"http://{host}"):
            self._send_error(403, f"The page of {origin} may ask nothing here.")
        else:
            return False
        return True

    def _answer(self, body: bytes) -> None:
        try:
            with self.server.turns:
                view = self.server.demo.answer(body)
        except errors.UserError as error:
            self._send_error(400, str(error))
        except tf.errors.OpError as error:
            self._send_error(500, f"in TensorFlow: {error.message}")
        else:
            self._send_json(200, dataclasses.asdict(view))

    def _send_error(self, status: int, message: str) -> None:
        self._send_json(status, {"error": message})

    def _send_json(self, status: int, content: Any) -> None:
        self._send(
            status, "application/json", strict_json.dumps(content).encode()
        )

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        # The page was closed before the answer came.
        with contextlib.suppress(ConnectionError):
            self.end_headers()
            self.wfile.write(content)


def run(settings: DemoPageOptions) -> None:
    """Serve the page until Ctrl-C."""
    with listen(settings.host, settings.port) as server:
        server.demo = views.load(settings.saved_model)
        if settings.host not in _LOCAL:
            logging.warning(
                "--host=%s: others in the network can ask too.", settings.host
            )
        port = server.server_address[1]
        logging.info("Open http://%s:%d. Ctrl-C ends.", settings.host, port)
        server.serve_forever()


if __name__ == "__main__":
    options.run_script(run, DemoPageOptions)
