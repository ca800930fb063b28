"""Classes and numbers of texts against the live model."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning import overlaps
from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.text import portable, service
from albert_tf.tasks.text import task as text
from tests.albert_tf.serving import saved_services
from tests.conftest import refused

LONG = " ".join(saved_services.TEXTS * 4)
TEXTS = [*saved_services.TEXTS, LONG]
SECONDS = [*saved_services.SECONDS, " ".join(saved_services.TEXTS * 2)]


@pytest.mark.parametrize("name", ["of_pairs", "of_numbers"])
def test_answers_are_those_of_the_model(request, tokenizer, name):
    """Texts of all lengths; long ones are cut as in training."""
    saved = request.getfixturevalue(name)
    texts, second = {"text": tf.constant(TEXTS)}, None
    if name == "of_pairs":
        texts["text_pair"], second = tf.constant(SECONDS), SECONDS
    inputs = saved_services.pack(tokenizer, TEXTS, second)
    expected = saved.model(inputs)["logits"]
    chances = tf.nn.softmax(expected)
    by_ids = saved.signatures["tokens"](**inputs)
    assert set(by_ids) == {
        "sequence_output",
        "pooled_output",
        "logits",
        "probabilities",
    }
    saved_services.assert_close(by_ids["logits"], expected)
    saved_services.assert_close(by_ids["probabilities"], chances)
    outputs = saved.signatures["serving_default"](**texts)
    cut = saved_services.are_cut(tokenizer, TEXTS, second)
    assert outputs["truncated"].numpy().tolist() == cut
    if name == "of_numbers":
        assert set(outputs) == {"score", "truncated"}
        saved_services.assert_close(outputs["score"], expected[:, 0])
        return
    assert set(outputs) == {"label", "labels", "probabilities", "truncated"}
    saved_services.assert_close(outputs["probabilities"], chances)
    labels = [label.encode() for label in saved_services.LABELS]
    assert outputs["labels"].numpy().tolist() == [labels] * 4
    best = expected.numpy().argmax(-1)
    assert outputs["label"].numpy().tolist() == [labels[i] for i in best]


@pytest.mark.parametrize("how", ["mean", "max"])
def test_labels_above_their_thresholds_of_all_windows(config, tokenizer, how):
    model = classification.AlbertClassifier(AlbertModel(config), 3)
    saved_services.spread(model, 0.3)
    long = text.WindowOptions(how, 5)

    def served(*thresholds):
        return service.MultiLabelService(
            model,
            tokenizer,
            saved_services.MAX_SEQ_LENGTH,
            pairs=False,
            labels=saved_services.LABELS,
            thresholds=thresholds,
            long=long,
        )

    logits, counts = [], []
    for ids in tokenizer.encode_batch(TEXTS):
        parts = overlaps.split(len(ids), 14, 5) or ((0, 0),)
        counts.append(len(parts))
        for begin, length in parts:
            row = [tokenizer.cls_id, *ids[begin : begin + length]]
            inputs = {"input_ids": tf.constant([[*row, tokenizer.sep_id]])}
            logits.append(model(inputs)["logits"][0])
    assert counts[:2] == [1, 1] and counts[3] > counts[2] > 1
    pooled = portable.pool(np.array(logits), counts, how)
    found = served(0.5, 0.5, 0.5).answer(tf.constant(TEXTS))
    chances = found["probabilities"].numpy()
    saved_services.assert_close(chances, tf.sigmoid(pooled))
    assert not found["truncated"].numpy().any()
    # The likeliest of the first text is at its threshold.
    best = chances[0].argmax()
    limits = [0.0] * 3
    limits[best] = float(chances[0, best])
    asked = served(*limits)
    labels = np.array(saved_services.LABELS)
    found = asked.answer(tf.constant(TEXTS))["predicted"].numpy()
    for row, given in zip(found, chances > limits, strict=True):
        expected = [label.encode() for label in labels[given]]
        assert row.tolist() == expected + [b""] * (3 - len(expected))
    assert asked.text_options == {
        "windows": how,
        "window_stride": 5,
        "thresholds": dict(zip(labels, limits, strict=True)),
    }
    assert not asked.can_adapt


@pytest.mark.parametrize(
    ("count", "labels", "expected"),
    [
        (3, None, ["0", "1", "2"]),
        (2, None, ["no, never", "yes"]),
        (2, "no, yes", ["no", "yes"]),
        (2, "a,a", "`labels=a,a` has a name twice"),
        (2, "a,", "or an empty one"),
        (3, "a,b", "3 classes and 2 names"),
        (1, None, "needs two classes at least"),
    ],
)
def test_names_of_classes(count, labels, expected):
    values = {"num_labels": count} | ({"labels": labels} if labels else {})
    # Of a folder for transformers.
    given = values, ["no, never", "yes"] if count == 2 else []
    if isinstance(expected, list):
        assert service._labels(*given) == expected
        return
    with refused(expected):
        service._labels(*given)
