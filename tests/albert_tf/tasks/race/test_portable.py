"""What exports for other runtimes have a copy of, against the task."""

import dataclasses
import types

import numpy as np
import pytest

from albert_tf.finetuning import base, packing
from albert_tf.tasks.race import data, portable
from albert_tf.tasks.race import task as race
from albert_tf.text import tokenization, wordpiece
from tests.albert_tf.serving import saved_services
from tests.albert_tf.tasks.race import test_service
from tests.conftest import FIXTURES


@pytest.mark.parametrize(
    "make, name",
    [
        (wordpiece.WordPieceTokenizer, "vocab.txt"),
        (tokenization.Tokenizer, "spm.model"),
    ],
)
def test_choices_are_laid_out_as_in_training(make, name):
    tokenizer = make(str(FIXTURES / "own_text" / name))
    length, options = saved_services.MAX_SEQ_LENGTH, saved_services.RACE
    task = race.RaceTask(tokenizer, length, options)
    about = {"max_seq_length": length, "options": dataclasses.asdict(options)}
    there = types.SimpleNamespace(
        encode=lambda text, enough=None: tokenizer.encode(text)[:enough],
        clean=tokenizer.clean,
    )
    decoder = portable.Decoder(about, there)
    for asked in saved_services.QUESTIONS:
        example = data.RaceQuestion("", "", *asked, 0)
        (features,) = task.featurize([example], base.PREDICT)
        rows, (is_real, cut) = decoder.lay_out(*asked)
        assert is_real == features["input_mask"][0].any(-1).tolist()
        packed = packing.pack(rows, tokenizer, length)
        for key, values in packed.items():
            np.testing.assert_array_equal(features[key][0][is_real], values)
        assert cut == test_service.is_cut(example, tokenizer)


def test_only_options_that_are_there_are_chosen():
    about = {"max_seq_length": 16, "options": {"num_options": 4}}
    outputs = [{"logits": np.float32(logit)} for logit in (-3, -2)]
    asked = [False, True, False, True], True
    answer = portable.Decoder(about, None).conclude(asked, outputs)
    assert (answer["choice"], answer["label"]) == (3, "D")
    expected = 0, 1 / (1 + np.e), 0, np.e / (1 + np.e)
    assert answer["probabilities"] == pytest.approx(expected)
    assert answer["truncated"]
