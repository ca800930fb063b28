"""Choices of a question against the live model."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning import base
from albert_tf.tasks.race import data as race_data
from albert_tf.tasks.race import task as race
from tests.albert_tf.serving import saved_services


def is_cut(example, tokenizer):
    """Whether an article, or an option with its question, is too long."""
    article = len(tokenizer.encode(example.article))
    task = race.RaceTask(
        tokenizer, saved_services.MAX_SEQ_LENGTH, saved_services.RACE
    )
    choices = [len(ids) for ids in map(tokenizer.encode, task.choices(example))]
    longest = saved_services.RACE.max_qa_length
    return any(
        c > longest
        or article > saved_services.MAX_SEQ_LENGTH - 3 - min(c, longest)
        for c in choices
    )


def test_choices(of_choices, tokenizer):
    """The same as features made in Python, for articles of all kinds."""
    outputs = of_choices.signatures["serving_default"](
        article=tf.constant([q[0] for q in saved_services.QUESTIONS]),
        question=tf.constant([q[1] for q in saved_services.QUESTIONS]),
        options=tf.constant([q[2] for q in saved_services.QUESTIONS]),
    )
    task = race.RaceTask(
        tokenizer, saved_services.MAX_SEQ_LENGTH, saved_services.RACE
    )
    examples = [
        race_data.RaceQuestion("", "", *question, 0)
        for question in saved_services.QUESTIONS
    ]
    (values,) = task.featurize(examples, base.PREDICT)
    ids = {
        name: tf.constant(values[name], tf.int32) for name in saved_services.IDS
    }
    logits = of_choices.model(ids)["logits"]
    saved_services.assert_close(outputs["probabilities"], tf.nn.softmax(logits))
    best = logits.numpy().argmax(-1)
    assert outputs["choice"].numpy().tolist() == best.tolist()
    letters = [b"ABCD"[i : i + 1] for i in best]
    assert outputs["label"].numpy().tolist() == letters
    cut = [is_cut(example, tokenizer) for example in examples]
    assert outputs["truncated"].numpy().tolist() == cut
    assert len(set(cut)) == 2
    by_ids = of_choices.signatures["tokens"](**ids)
    saved_services.assert_close(by_ids["logits"], logits)
    assert by_ids["sequence_output"].shape == [
        5,
        4,
        saved_services.MAX_SEQ_LENGTH,
        16,
    ]
    assert by_ids["pooled_output"].shape == [5, 4, 16]


def test_options_of_another_shape_are_refused(of_choices):
    """TensorFlow itself would take them, and mix them up."""
    options = {"num_options": 4, "max_qa_length": 6}
    assert of_choices.service.text_options == options
    choose = of_choices.signatures["serving_default"]
    for articles, questions, options, message in (
        (2, 2, np.full([4, 2], "a"), "options must be 4 for each article"),
        (1, 1, np.full([2, 2], "a"), "options must be 4 for each article"),
        (1, 2, np.full([1, 4], "a"), "as many questions as articles"),
        (4, 4, np.full([4], "a"), "options must be 4 for each article"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            choose(
                article=tf.constant(["a"] * articles),
                question=tf.constant(["q"] * questions),
                options=tf.constant(options),
            )
