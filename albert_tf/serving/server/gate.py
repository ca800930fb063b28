"""What all requests pass: who may ask, how much, and what is measured."""

import re
import time
from collections.abc import Mapping, Sequence

import prometheus_client
from fastapi import responses
from starlette import datastructures, exceptions, types

from albert_tf.serving.server import batching


class Gate:
    """An ASGI application around another one.

    Set `is_ending` to have each connection closed after its next answer.
    """

    def __init__(
        self, app: types.ASGIApp, max_bytes: int, hosts: Sequence[str]
    ) -> None:
        self._app, self._max_bytes, self._hosts = app, max_bytes, hosts
        self.is_ending = False
        self.registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.registry)
        self._requests = prometheus_client.Histogram(
            "albert_request_seconds",
            "From a request to the end of its answer.",
            ("path", "status"),
            registry=self.registry,
        )
        labels = ("model", "signature")
        self._batches = prometheus_client.Histogram(
            "albert_batch_rows",
            "Rows that were computed together.",
            labels,
            registry=self.registry,
            buckets=[2**i for i in range(11)],
        )
        self._waiting = prometheus_client.Gauge(
            "albert_waiting_rows",
            "Rows that wait for the next batches.",
            labels,
            registry=self.registry,
        )

    def watch(
        self, model: str, signature: str, batcher: batching.Batcher
    ) -> None:
        batcher.observe = self._batches.labels(model, signature).observe
        waiting = self._waiting.labels(model, signature)
        waiting.set_function(lambda: batcher.waiting)

    async def __call__(
        self, scope: types.Scope, receive: types.Receive, send: types.Send
    ) -> None:
        status, size, begun = 500, 0, time.perf_counter()

        async def receive_some() -> types.Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_bytes:
                raise exceptions.HTTPException(
                    413, f"A request may have {self._max_bytes} bytes."
                )
            return message

        async def send_on(message: types.Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = datastructures.MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                if self.is_ending:
                    headers["Connection"] = "close"
            await send(message)

        if scope.get("method") == "HEAD":  # As GET; the server sends no body.
            scope = {**scope, "method": "GET"}
        refused = self._refuse(datastructures.Headers(scope=scope))
        try:
            await (refused or self._app)(scope, receive_some, send_on)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - begun
            self._requests.labels(path, status).observe(seconds)

    def _refuse(
        self, headers: datastructures.Headers
    ) -> responses.Response | None:
        """Refuse a request from the page of another site.

        By DNS rebinding another site can send a browser's requests here, but
        with its own name in the header. Any port is allowed: a tunnel may
        change it.
        """
        host, origin = headers.get("host", ""), headers.get("origin")
        name = re.sub(r":[0-9]{1,5}$", "", host).lower()
        if self._hosts and name not in self._hosts:
            return refusal(421, f"There is no site {host!r} here.")
        if origin and re.sub("^https?://", "", origin) != host:
            return refusal(403, f"The page of {origin} may ask nothing here.")
        return None


def refusal(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> responses.Response:
    return responses.JSONResponse({"error": message}, status, headers)
