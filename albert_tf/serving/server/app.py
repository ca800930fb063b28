"""The HTTP application; errors are `{"error": MESSAGE}`, as JSON."""

import http
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import fastapi
import fastapi_offline
import prometheus_client
import pydantic
import tensorflow as tf
from fastapi import responses
from starlette import exceptions, requests

import albert_tf
from albert_tf.common import errors
from albert_tf.serving.server import batching, endpoints, gate, models, schema

PAGE = pathlib.Path(__file__).with_name("page.html")
_MOST_SHOWN = 300  # Characters of a message of TensorFlow.
# Its last line, without what names the operation.
_REASON = re.compile(
    r"^(?:assertion failed: \[)?([^\n]+?)(?:\.*\s*\] \[[^\n]*)?\n\t \[\[", re.M
)
# The page needs nothing but itself and its server.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline';"
    " connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
_ABOUT = (
    "`/models` takes an object of inputs or a list of them; `/v1` has "
    "TensorFlow Serving's forms. [The page](/)"
)


def make(
    served: Sequence[models.Model],
    limits: batching.Limits,
    max_bytes: int,
    hosts: Sequence[str] = (),
) -> gate.Gate:
    """Return the ASGI application.

    Args:
        max_bytes: Of a request.
        hosts: Names by which requests must call this server; empty if any will
            do.
    """
    app = fastapi_offline.FastAPIOffline(
        title="albert_tf",
        version=albert_tf.__version__,
        description=_ABOUT,
        redoc_url=None,
        exception_handlers=dict.fromkeys(_ERRORS, _on_error),
    )
    whole = gate.Gate(app, max_bytes, hosts)
    _add_state(app, whole)
    for model in served:
        asked = {
            name: endpoints.Asked(signature, limits)
            for name, signature in model.signatures.items()
        }
        _add_model(app, endpoints.Endpoints(model, asked))
        for name, one in asked.items():
            whole.watch(model.name, name, one.batcher)
    _add_page(app, served, max_bytes)
    return whole


def _add_model(app: fastapi.FastAPI, service: endpoints.Endpoints) -> None:
    name, version = service.model.name, service.model.version
    for key, asked in service.asked.items():
        rows = asked.type.json_schema()
        row = rows.pop("$defs")["Row"]
        app.post(
            f"/models/{name}/{key}",
            tags=[name],
            description=f"Returns {', '.join(asked.signature.outputs)}.",
            openapi_extra=_body({"anyOf": [row, {**rows, "items": row}]}),
        )(service.answer(key))
    base = f"/v1/models/{name}"
    for path in (base, f"{base}/versions/{version}"):
        shown = path == base
        app.post(
            f"{path}:predict",
            tags=[name],
            include_in_schema=shown,
            openapi_extra=_body({"type": "object"}),
        )(service.predict)
        for ending in ("state", "metadata"):
            place = path if ending == "state" else f"{path}/{ending}"
            app.get(place, tags=[name], include_in_schema=shown)(
                getattr(service, ending)
            )
    if service.model.form:
        app.post(f"/page/{name}", include_in_schema=False)(service.view)


def _body(schema_: Mapping[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema_}}
    return {"requestBody": {"required": True, "content": content}}


def _add_page(
    app: fastapi.FastAPI, served: Sequence[models.Model], max_bytes: int
) -> None:
    forms = {model.name: model.form.to_dict() for model in served if model.form}

    @app.get("/", include_in_schema=False)
    async def page() -> fastapi.Response:
        headers = {"Content-Security-Policy": _POLICY}
        return responses.FileResponse(PAGE, headers=headers)

    @app.get("/page", include_in_schema=False)
    async def page_forms() -> Any:
        return {"max_bytes": max_bytes, "forms": forms}


def _add_state(app: fastapi.FastAPI, whole: gate.Gate) -> None:
    @app.get("/healthz", tags=["state"])
    async def healthz() -> Any:
        """Tell that the server runs."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["state"])
    async def readyz() -> Any:
        """Tell whether requests should be sent here; status 503 if not."""
        if whole.is_ending:
            raise fastapi.HTTPException(503, "The server is being stopped.")
        return {"status": "ok"}

    @app.get("/metrics", tags=["state"])
    async def metrics() -> fastapi.Response:
        """Give Prometheus its numbers."""
        text = prometheus_client.generate_latest(whole.registry)
        kind = prometheus_client.CONTENT_TYPE_LATEST
        return fastapi.Response(text, media_type=kind)


_ERRORS: Sequence[type[Exception]] = (
    errors.UserError,
    pydantic.ValidationError,
    batching.QueueFullError,
    tf.errors.OpError,
    exceptions.HTTPException,
    requests.ClientDisconnect,
    Exception,
)


async def _on_error(
    request: fastapi.Request, error: Exception
) -> fastapi.Response:
    if isinstance(error, exceptions.HTTPException):
        message = error.detail
        if message == http.HTTPStatus.NOT_FOUND.phrase:
            message = f"There is nothing at {request.url.path}. See /docs."
        elif error.status_code == http.HTTPStatus.METHOD_NOT_ALLOWED:
            message = f"Use {(error.headers or {}).get('Allow')}. See /docs."
        return gate.refusal(error.status_code, message, error.headers)
    if isinstance(error, batching.QueueFullError):
        message = "Too many requests wait. Try again in a second."
        return gate.refusal(503, message, {"Retry-After": "1"})
    if isinstance(error, tf.errors.OpError):
        is_wrong = isinstance(error, tf.errors.InvalidArgumentError)
        reason = _REASON.search(error.message)
        message = reason[1] if reason else error.message
        return gate.refusal(400 if is_wrong else 500, message[:_MOST_SHOWN])
    if isinstance(error, pydantic.ValidationError):
        return gate.refusal(400, schema.explain(error))
    if isinstance(error, (errors.UserError, requests.ClientDisconnect)):
        return gate.refusal(400, str(error))
    return gate.refusal(500, "The server failed. Its log says why.")
