"""Feature files: reused when nothing changed, made anew when something did."""

import dataclasses
import os

import pytest

from albert_tf import inputs, tokenization
from albert_tf.tasks import base, features, glue
from data_prep import train_sentencepiece

EXAMPLES = [
    base.Example("dev-2", "It rains.", "It is wet.", 0),
    base.Example("dev-3", "We stay.", "We go.", 1),
]


def make(folder, tokenizer, examples=EXAMPLES, max_seq_length=16):
    return features.cached(
        glue.GlueTask("rte"),
        examples,
        tokenizer,
        max_seq_length=max_seq_length,
        path_prefix=str(folder / "rte-dev"),
    )


@pytest.fixture
def other_tokenizer(tmp_path, story_text):
    folder = tmp_path / "other vocabulary"
    folder.mkdir()
    (folder / "text.txt").write_text(story_text[0])
    train_sentencepiece.run(
        train_sentencepiece.Options(
            input_file=str(folder / "text.txt"),
            output_prefix=str(folder / "other"),
            vocab_size=120,
        )
    )
    return tokenization.Tokenizer(str(folder / "other.model"))


def test_file_holds_the_features_in_order(tmp_path, tiny_tokenizer):
    path = make(tmp_path, tiny_tokenizer)
    task = glue.GlueTask("rte")
    (batch,) = inputs.evaluation_dataset([path], task.layout(16), 2)
    expected = task.featurize(EXAMPLES, tiny_tokenizer, 16)
    for name in ("input_ids", "input_mask", "segment_ids", "label_ids"):
        assert batch[name].numpy().tolist() == [
            values[name].tolist() for values in expected
        ]
    assert batch["is_real_example"].numpy().tolist() == [1, 1]


def test_name_says_task_and_split(tmp_path, tiny_tokenizer):
    name = os.path.basename(make(tmp_path, tiny_tokenizer))
    assert name.startswith("rte-dev-")
    assert name.endswith(".tfrecord")
    assert os.listdir(tmp_path) == [name]


def test_second_call_reuses_the_file(tmp_path, tiny_tokenizer):
    path = make(tmp_path, tiny_tokenizer)
    os.utime(path, ns=(1, 1))
    before = os.stat(path)
    assert make(tmp_path, tiny_tokenizer) == path
    after = os.stat(path)
    assert (after.st_mtime_ns, after.st_ino) == (1, before.st_ino)


def test_broken_off_writing_leaves_no_file(
    tmp_path, tiny_tokenizer, monkeypatch
):
    monkeypatch.setattr(features.records, "encode", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        make(tmp_path, tiny_tokenizer)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"text_a": "It snows."},
        {"text_b": "It is white."},
        {"label": 1},
        # The border between the texts moves, their letters stay.
        {"text_a": "It rains. It", "text_b": "is wet."},
    ],
)
def test_changed_example_makes_another_file(tmp_path, tiny_tokenizer, changes):
    changed = [dataclasses.replace(EXAMPLES[0], **changes), EXAMPLES[1]]
    assert make(tmp_path, tiny_tokenizer, changed) != make(
        tmp_path, tiny_tokenizer
    )
    assert len(os.listdir(tmp_path)) == 2


def test_other_order_or_length_makes_another_file(tmp_path, tiny_tokenizer):
    paths = {
        make(tmp_path, tiny_tokenizer),
        make(tmp_path, tiny_tokenizer, EXAMPLES[::-1]),
        make(tmp_path, tiny_tokenizer, EXAMPLES[:1]),
        make(tmp_path, tiny_tokenizer, max_seq_length=17),
    }
    assert len(paths) == 4


def test_other_vocabulary_or_casing_makes_another_file(
    tmp_path, tiny_vocab, other_tokenizer
):
    folder = tmp_path / "features"
    folder.mkdir()
    paths = {
        make(folder, tokenization.Tokenizer(tiny_vocab)),
        make(folder, tokenization.Tokenizer(tiny_vocab, False)),
        make(folder, other_tokenizer),
    }
    assert len(paths) == 3
