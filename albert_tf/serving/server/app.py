"""The HTTP application; errors are `{"error": MESSAGE}`, as JSON.

Source of `predict`, `state` and `metadata`: TensorFlow Serving's guide "RESTful
API".
"""

import dataclasses
import http
import pathlib
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import fastapi
import fastapi_offline
import orjson
import prometheus_client
import pydantic
import tensorflow as tf
from fastapi import responses
from starlette import exceptions, requests

import albert_tf
from albert_tf.common import errors, strict_json
from albert_tf.serving.client import ask
from albert_tf.serving.server import batching, gate, models, schema

PAGE = pathlib.Path(__file__).with_name("page.html")
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


_Endpoint = Callable[[fastapi.Request], Awaitable[fastapi.Response]]


class _Asked:
    """A signature with those who ask it.

    Attributes:
        type: Of its rows; see `schema.rows_type`.
    """

    def __init__(self, signature: ask.Signature, limits: batching.Limits):
        self.signature = signature
        self.batcher = batching.Batcher(signature.compute, limits)
        rows_type = schema.rows_type(signature.specs, limits.max_waiting)
        self.type = pydantic.TypeAdapter(rows_type)

    async def __call__(self, rows: Any) -> list[ask.Arrays]:
        checked = self.type.validate_python(rows)
        inputs = schema.arrays(checked, self.signature.specs)
        return await self.batcher.submit(inputs)


@dataclasses.dataclass(frozen=True)
class _Endpoints:
    """The endpoints of a model, given its signatures by name."""

    model: models.ServedModel
    asked: dict[str, _Asked]

    def answer(self, name: str) -> _Endpoint:
        """Return the endpoint of a signature: objects of inputs to answers."""

        async def answer(request: fastapi.Request) -> fastapi.Response:
            body = await _read(request)
            rows = body if isinstance(body, list) else [body]
            inputs = self.asked[name].signature.inputs
            texts = [ask.join_words(row, inputs, "the row") for row in rows]
            parts = await self.asked[name](
                [text or row for text, row in zip(texts, rows, strict=True)]
            )
            answers = [
                {**ask.readable(part, row["words"] if text else ()), **text}
                for part, row, text in zip(parts, rows, texts, strict=True)
            ]
            return _write(answers if rows is body else answers[0])

        return answer

    async def predict(self, request: fastapi.Request) -> fastapi.Response:
        """Answer `instances`, row by row, or `inputs`, a list for each."""
        body = await _read(request)
        kinds = {"inputs", "instances"}
        if not isinstance(body, dict) or len(kinds & body.keys()) != 1:
            raise errors.UserError(
                "The request must be an object with either 'instances', a list "
                "of objects, or 'inputs', an object of lists."
            )
        name = body.get("signature_name", "serving_default")
        asked = self.asked.get(name) if isinstance(name, str) else None
        if asked is None:
            raise errors.UserError(
                f"'signature_name' is {strict_json.brief(name)}. Choose one of "
                f"{', '.join(self.asked)}."
            )
        specs = asked.signature.specs
        if "inputs" in body:
            rows = schema.rows_of_columns(body["inputs"], specs)
            outputs = ask.join(await asked(rows))
            columns = {key: ask.plain(value) for key, value in outputs.items()}
            return _write({"outputs": _without_name(columns)})
        rows = schema.rows_of_instances(body["instances"], specs)
        parts = [ask.one_row(part) for part in await asked(rows)]
        return _write({"predictions": [*map(_without_name, parts)]})

    async def state(self, request: fastapi.Request) -> fastapi.Response:
        """Return which version is served."""
        state = {
            "version": self.model.version,
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return _write({"model_version_status": [state]})

    async def metadata(self, request: fastapi.Request) -> fastapi.Response:
        """Return names, types and shapes of inputs and outputs."""
        names = {"name": self.model.name, "signature_name": ""}
        spec = {**names, "version": self.model.version}
        definitions = {"signature_def": self.model.definitions}
        content = {"signature_def": definitions}
        return _write({"model_spec": spec, "metadata": content})

    async def view(self, request: fastapi.Request) -> fastapi.Response:
        """Answer the form of the page."""
        form, texts = self.model.form, await _read(request)
        assert form is not None
        asked = self.asked[form.signature]
        asked.type.validate_python([texts])
        form.check(texts)
        (part,) = await asked([texts])
        view = form.kind.show(texts, ask.readable(part))
        return _write(dataclasses.asdict(view))


async def _read(request: fastapi.Request) -> Any:
    body = await request.body()
    if request.headers.get("content-encoding", "").lower() == "gzip":
        body = _unpack(body, request.app.state.max_bytes)
    try:
        return strict_json.loads(body)
    except strict_json.JsonError as error:
        raise errors.UserError(f"The request is not JSON: {error}.") from None


def _unpack(packed: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        body = unpacker.decompress(packed, most + 1)
    except zlib.error as error:
        raise errors.UserError(f"The request is no gzip: {error}.") from None
    if len(body) > most:
        raise fastapi.HTTPException(413, f"A request may have {most} bytes.")
    if not unpacker.eof or unpacker.unused_data:
        raise errors.UserError("The request is no whole gzip.")
    return body


def _write(content: Any) -> fastapi.Response:
    """Return JSON; numbers that are not finite become null."""
    text = orjson.dumps(content)
    return fastapi.Response(text, media_type="application/json")


def _without_name(outputs: dict[str, Any]) -> Any:
    """Return outputs as TensorFlow Serving does: one without its name."""
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


def make(
    served: Sequence[models.ServedModel],
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
    app.state.max_bytes = max_bytes
    whole = gate.Gate(app, max_bytes, hosts)
    _add_state(app, whole)
    for model in served:
        asked = {
            name: _Asked(signature, limits)
            for name, signature in model.signatures.items()
        }
        _add_model(app, _Endpoints(model, asked))
        for name, one in asked.items():
            whole.watch(model.name, name, one.batcher)
    _add_page(app, served, max_bytes)
    return whole


def _add_model(app: fastapi.FastAPI, service: _Endpoints) -> None:
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
        shown: dict[str, Any] = {
            "tags": [name],
            "include_in_schema": path == base,
        }
        app.post(
            f"{path}:predict", openapi_extra=_body({"type": "object"}), **shown
        )(service.predict)
        app.get(path, **shown)(service.state)
        app.get(f"{path}/metadata", **shown)(service.metadata)
    if service.model.form:
        app.post(f"/page/{name}", include_in_schema=False)(service.view)


def _body(schema_: Mapping[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema_}}
    return {"requestBody": {"required": True, "content": content}}


def _add_page(
    app: fastapi.FastAPI, served: Sequence[models.ServedModel], max_bytes: int
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
        return gate.refusal(400 if is_wrong else 500, ask.extract_reason(error))
    if isinstance(error, pydantic.ValidationError):
        return gate.refusal(400, schema.explain(error))
    if isinstance(error, (errors.UserError, requests.ClientDisconnect)):
        return gate.refusal(400, str(error))
    return gate.refusal(500, "The server failed. Its log says why.")
