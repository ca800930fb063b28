"""What clients of the load test measure."""

import numpy as np
import pytest

from lab.benchmarks import server_load
from tests.albert_tf.serving.server import http_server


def measure(inputs):
    sizes = np.array([len(text) for text in inputs["text"]], np.int32)
    return {"length": sizes, "share": (sizes / 7).astype(np.float32)}


def test_texts_have_mixed_lengths():
    texts = server_load.make_texts()
    lengths = [len(text.split()) for text in texts]
    assert len(texts) == server_load.TEXTS
    assert (min(lengths), max(lengths)) == (3, 120)


@pytest.mark.parametrize("shift", [0, 1])
def test_answers_are_compared(shift):
    texts = server_load.make_texts()
    answers = [
        {"length": len(text) + shift, "share": len(text) / 7} for text in texts
    ]
    signature = http_server.Signature(
        measure, ["length", "share"], text=http_server.texts()
    )
    whole = http_server.make_app(
        http_server.make_model(serving_default=signature)
    )
    with http_server.running(whole) as (_, port):
        if shift:
            with pytest.raises(ValueError, match='{"text": ".*"} got '):
                server_load.ask_for(port, 3, 0.5, answers)
            return
        times = server_load.ask_for(port, 3, 0.5, answers)
        rows, count = server_load.batches(port)
    assert rows == len(times) >= count > 0
    assert 0 < min(times) and max(times) < 60
