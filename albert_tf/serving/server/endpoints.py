"""The endpoints of a model.

Source of `predict`, `state` and `metadata`: TensorFlow Serving's guide "RESTful
API".
"""

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import fastapi
import orjson
import pydantic

from albert_tf.common import errors, strict_json
from albert_tf.serving.client import ask
from albert_tf.serving.server import batching, models, schema

Endpoint = Callable[[fastapi.Request], Awaitable[fastapi.Response]]


class Asked:
    """A signature with those who ask it.

    Attributes:
        type: Of its rows; see `schema.rows_type`.
    """

    def __init__(self, signature: ask.Signature, limits: batching.Limits):
        self.signature = signature
        self.batcher = batching.Batcher(signature.compute, limits)
        rows_type = schema.rows_type(signature.specs, limits.batch_size)
        self.type = pydantic.TypeAdapter(rows_type)

    async def __call__(self, rows: Any) -> ask.Arrays:
        checked = self.type.validate_python(rows)
        inputs = schema.arrays(checked, self.signature.specs)
        return await self.batcher.submit(inputs)


@dataclasses.dataclass(frozen=True)
class Endpoints:
    """The endpoints of a model, given its signatures by name."""

    model: models.Model
    asked: dict[str, Asked]

    def answer(self, name: str) -> Endpoint:
        """Return the endpoint of a signature: objects of inputs to answers."""

        async def answer(request: fastapi.Request) -> fastapi.Response:
            body = await read(request)
            rows = body if isinstance(body, list) else [body]
            outputs = await self.asked[name](rows)
            found = ask.split(outputs, [1] * len(rows))
            answers = [ask.readable(row) for row in found]
            return write(answers if rows is body else answers[0])

        return answer

    async def predict(self, request: fastapi.Request) -> fastapi.Response:
        """Answer `instances`, row by row, or `inputs`, a list for each."""
        body = await read(request)
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
                f"'signature_name' is {strict_json.shown(name)}. Choose one of "
                f"{', '.join(self.asked)}."
            )
        specs = asked.signature.specs
        if "inputs" in body:
            rows = schema.rows_of_columns(body["inputs"], specs)
            outputs = await asked(rows)
            columns = {key: ask.plain(value) for key, value in outputs.items()}
            return write({"outputs": _without_name(columns)})
        rows = schema.rows_of_instances(body["instances"], specs)
        parts = ask.split(await asked(rows), [1] * len(rows))
        found = [_without_name(ask.one_row(part)) for part in parts]
        return write({"predictions": found})

    async def state(self, request: fastapi.Request) -> fastapi.Response:
        """Return which version is served."""
        state = {
            "version": self.model.version,
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return write({"model_version_status": [state]})

    async def metadata(self, request: fastapi.Request) -> fastapi.Response:
        """Return names, types and shapes of inputs and outputs."""
        names = {"name": self.model.name, "signature_name": ""}
        spec = {**names, "version": self.model.version}
        definitions = {"signature_def": self.model.definitions}
        content = {"signature_def": definitions}
        return write({"model_spec": spec, "metadata": content})

    async def view(self, request: fastapi.Request) -> fastapi.Response:
        """Answer the form of the page."""
        form, texts = self.model.form, await read(request)
        assert form is not None
        asked = self.asked[form.signature]
        asked.type.validate_python([texts])
        form.check(texts)
        answer = ask.readable(await asked([texts]))
        return write(dataclasses.asdict(form.kind.show(texts, answer)))


async def read(request: fastapi.Request) -> Any:
    try:
        return strict_json.loads(await request.body())
    except strict_json.JsonError as error:
        raise errors.UserError(f"The request is not JSON: {error}.") from None


def write(content: Any) -> fastapi.Response:
    """Return JSON; numbers that are not finite become null."""
    text = orjson.dumps(content)
    return fastapi.Response(text, media_type="application/json")


def _without_name(outputs: dict[str, Any]) -> Any:
    """Return outputs as TensorFlow Serving does: one without its name."""
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs
