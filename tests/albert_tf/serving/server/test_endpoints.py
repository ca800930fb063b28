"""Questions in JSON, in the form of TensorFlow Serving and of the page."""

import gzip
import json

import numpy as np
import pytest

from tests.albert_tf.serving.server import http_server

ROWS = [{"text": "a", "text_pair": "a"}, {"text": "é", "text_pair": "b"}]
ANSWERS = [
    {"label": "same", "labels": ["same", "other"], "probabilities": [1.0, 0.0]},
    {
        "label": "other",
        "labels": ["same", "other"],
        "probabilities": [0.0, 1.0],
    },
]
COLUMNS = {
    "text": [row["text"] for row in ROWS],
    "text_pair": [row["text_pair"] for row in ROWS],
}
PREDICT = "/v1/models/m:predict"


def test_an_object_or_a_list_is_answered(port):
    path = "/models/m/serving_default"
    assert http_server.ask(port, path, ROWS[1]) == (200, ANSWERS[1])
    assert http_server.ask(port, path, ROWS) == (200, ANSWERS)
    assert http_server.ask(port, path, ROWS[:1]) == (200, ANSWERS[:1])


def test_models_of_tags_take_words_as_a_text():
    def find(inputs):
        """A span for each character."""
        sizes = [len(text) for text in inputs["text"]]
        starts = np.tile(np.arange(max(sizes)), [len(sizes), 1])
        return {
            "num_spans": np.array(sizes),
            "span_start": starts,
            "span_end": starts + 1,
        }

    signature = http_server.Signature(
        find,
        ["num_spans", "span_start", "span_end"],
        text=http_server.texts(),
    )
    model = http_server.make_model(serving_default=signature)
    with http_server.running(http_server.make_app(model)) as (_, port):
        path = "/models/m/serving_default"
        body = [{"words": ["a.", "."]}, {"text": "b"}]
        spans = [
            {"start": 0, "end": 2, "text": "a."},
            {"start": 2, "end": 3, "text": "."},
        ]
        assert http_server.ask(port, path, body) == (
            200,
            [
                {"spans": spans, "text": "a.."},
                {"spans": [{"start": 0, "end": 1}]},
            ],
        )
        for words in (["a", ""], "a", None):
            status, found = http_server.ask(port, path, {"words": words})
            assert (status, "'words' is" in found["error"]) == (400, True)


@pytest.mark.parametrize("base", ["/v1/models/m", "/v1/models/m/versions/7"])
def test_forms_of_tensorflow_serving(port, base):
    """As its guide shows them; curl sends no type of JSON."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    status, found = http_server.ask(
        port, f"{base}:predict", {"instances": ROWS}, **kind
    )
    assert (status, found) == (200, {"predictions": ANSWERS})
    body = {"signature_name": "serving_default", "inputs": COLUMNS}
    status, found = http_server.ask(port, f"{base}:predict", body)
    assert status == 200
    assert found == {
        "outputs": {key: [a[key] for a in ANSWERS] for key in ANSWERS[0]}
    }


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"instances": ["ab", "c"]}, {"predictions": [2, 1]}),
        ({"instances": [{"text": "ab"}]}, {"predictions": [2]}),
        ({"instances": [{"b64": "YcOp"}]}, {"predictions": [2]}),
        ({"instances": [{"text": {"b64": ""}}]}, {"predictions": [0]}),
        ({"inputs": ["ab", {"b64": "Yw=="}]}, {"outputs": [2, 1]}),
        ({"inputs": ["ab", "c"]}, {"outputs": [2, 1]}),
        ({"inputs": {"text": ["ab"]}}, {"outputs": [2]}),
        ({"instances": ["ab"] * 8}, {"predictions": [2] * 8}),  # At most.
    ],
)
def test_one_input_and_one_output_need_no_names(port, body, answer):
    body = {**body, "signature_name": "measure"}
    assert http_server.ask(port, PREDICT, body) == (200, answer)


def test_lists_of_numbers(port):
    body = {"signature_name": "add", "instances": [[1, 2], [3, 4]]}
    _, found = http_server.ask(port, PREDICT, body)
    rows = [{"ids": [1, 2], "sums": 3}, {"ids": [3, 4], "sums": 7}]
    assert found == {"predictions": rows}


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/models/m/measure", b'{"text": "What', "is not JSON: unexpected end"),
        ("/models/m/measure", b"\xff", "byte 1 of the text is 0xff"),
        ("/models/m/measure", b"", "is not JSON"),
        ("/models/m/measure", [], "the request: List should have at least 1"),
        ("/models/m/measure", 3, "row 1: Input should be a valid dictionary"),
        ("/models/m/measure", {"txt": "a"}, "row 1, text: Field required"),
        ("/models/m/measure", [{"text": "a"}, {"text": 1}], "row 2, text: Inp"),
        ("/models/m/measure", {"text": "a", "x": 1}, "row 1, x: Extra inputs"),
        ("/models/m/measure", [{"text": "a"}] * 9, "at most 8 items"),
        ("/models/m/measure", {"text": "a" * 100}, "length is not in [0, 99]"),
        ("/models/m/add", {"ids": [1, True]}, "row 1, ids, 1: Input should be"),
        ("/models/m/add", {"ids": [2**31]}, "should be less than 2147483648"),
        (
            "/models/m/add",
            [{"ids": [1]}, {"ids": [1, 2]}],
            "'ids' has lists of different lengths. Pad",
        ),
        ("/models/m/measure", {"text": {"b64": "?"}}, "row 1, text: "),
        ("/models/m/measure", {"text": {"b64": "/w=="}}, "row 1, text: "),
        ("/models/m/measure", {"text": {"b64": 1}}, "row 1, text: "),
        ("/models/m/measure", {"text": {"b64": "", "x": 1}}, "row 1, text: "),
        ("/models/m/mask", {"input_mask": [1, 5]}, "less than or equal to 1"),
        ("/models/m/mask", {"input_mask": [-1]}, "greater than or equal to 0"),
        ("/models/m/mask", {"input_mask": [0, 0]}, "has a row without a 1"),
        (PREDICT, [], "with either 'instances'"),
        (PREDICT, {}, "with either 'instances'"),
        (PREDICT, {"instances": [], "inputs": {}}, "with either 'instances'"),
        (PREDICT, {"instances": "ab"}, "the request: Input should be a valid"),
        (PREDICT, {"instances": ["ab"]}, "row 1: Input should be a valid dict"),
        (PREDICT, {"inputs": {}}, "'inputs' has lists of different lengths"),
        (PREDICT, {"inputs": "ab"}, "'inputs' is \"ab\"; it must be an object"),
        (PREDICT, {"inputs": {"text": "a"}}, "a list for each of text, text_p"),
        (PREDICT, {"inputs": {"text": ["a"]}}, "row 1, text_pair: Field req"),
        (
            PREDICT,
            {"inputs": {"text": ["a"], "text_pair": []}},
            "'inputs' has lists of different lengths",
        ),
        (
            PREDICT,
            {"instances": ["a"], "signature_name": "adds"},
            "'signature_name' is \"adds\". Choose one of serving_default, mea",
        ),
        (PREDICT, {"instances": [], "signature_name": [1]}, "is [1]. Choose"),
        ("/page/m", {"text": " ", "text_pair": "a"}, "The text is empty. Fill"),
        ("/page/m", {"text": "a"}, "row 1, text_pair: Field required"),
        ("/page/m", [ROWS[0]], "row 1: Input should be a valid dictionary"),
    ],
)
def test_what_is_wrong_is_said(port, path, body, message):
    status, content = http_server.ask(port, path, body)
    assert status == 400
    assert list(content) == ["error"]
    assert message in content["error"]
    assert "\n" not in content["error"] and len(content["error"]) < 400


def test_bodies_may_be_packed_and_head_is_get(port):
    path, body = "/models/m/measure", b'{"text": "ab"}'
    how = {"Content-Encoding": "gzip"}
    packed = gzip.compress(body)
    assert http_server.ask(port, path, packed, **how) == (200, {"length": 2})
    for damaged in (body, packed[:-8], packed + packed):
        assert http_server.ask(port, path, damaged, **how)[0] == 400
    bomb = gzip.compress(bytes(http_server.MAX_BYTES + 1))
    status, content = http_server.ask(port, path, bomb, **how)
    assert status == 413 and "10000 bytes" in content["error"]
    for there in ("/", "/healthz", "/v1/models/m"):
        status, headers, content = http_server.fetch(port, "HEAD", there)
        assert (status, content) == (200, b"")
        assert int(headers["Content-Length"]) > 10
    assert http_server.fetch(port, "HEAD", path)[0] == 405


def test_state_and_metadata(port):
    _, _, content = http_server.fetch(port, "GET", "/v1/models/m")
    (version,) = json.loads(content)["model_version_status"]
    assert (version["version"], version["state"]) == ("7", "AVAILABLE")
    _, _, content = http_server.fetch(port, "GET", "/v1/models/m/metadata")
    content = json.loads(content)
    assert content["model_spec"]["version"] == "7"
    definitions = content["metadata"]["signature_def"]["signature_def"]
    assert definitions["add"] == {"method_name": "add"}


def test_page_gets_what_it_shows(port):
    status, view = http_server.ask(port, "/page/m", ROWS[0])
    assert status == 200
    assert view["headline"] == "same"
    assert view["charts"] == {
        "Classes": [["same", 1.0, ""], ["other", 0.0, ""]]
    }
