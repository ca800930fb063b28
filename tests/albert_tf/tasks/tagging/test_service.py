"""Spans of a saved service against those of the task."""

import pytest
import tensorflow as tf

from albert_tf.finetuning import batches
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import make
from albert_tf.serving.client import ask
from albert_tf.tasks.tagging import task as tagging
from albert_tf.text import tokenization, wordpiece
from tests.albert_tf.finetuning import tagged
from tests.albert_tf.serving import saved_services
from tests.conftest import FIXTURES, changed

LENGTH = 16
LABELS = {
    "BIO": ("X", "B-x", "I-x", "B-y y", "I-y y", "O"),  # X is outside, too.
    "BIOES": ("B-x", "I-x", "O", "E-x", "S-x", "I-y", "E-y"),
    "plain": ("NOUN", "VERB", ","),
}
TOKENIZERS = {
    "sentencepiece": lambda: tokenization.Tokenizer(
        str(FIXTURES / "own_text/spm.model"), keep_accents=True
    ),
    "wordpiece": lambda: wordpiece.WordPieceTokenizer(
        str(FIXTURES / "own_text/vocab.txt")
    ),
}


def spans_of_task(task, model, texts, path):
    """Answers of the task for a file, each with its bytes."""
    path.write_text("".join(tagged.line(text) for text in texts))
    examples = task.read_own(str(path))
    call = tf.function(model, autograph=False, reduce_retracing=True)
    outputs = batches.run_model(
        lambda batch: {k: v.numpy() for k, v in call(batch).items()},
        task,
        examples,
        8,
    )
    return [answer["spans"] for answer in task.answers(outputs, examples)]


@pytest.mark.parametrize(
    ("kind", "vocabulary"),
    [
        ("BIO", "sentencepiece"),
        pytest.param("BIOES", "wordpiece", marks=pytest.mark.slow),
        pytest.param("plain", "sentencepiece", marks=pytest.mark.slow),
    ],
)
def test_spans_of_texts_are_those_of_the_task(
    config, tmp_path, kind, vocabulary
):
    tokenizer = TOKENIZERS[vocabulary]()
    options = tagging.TaggingOptions("\t".join(LABELS[kind]))
    task = tagging.TaggingTask(tokenizer, LENGTH, options)
    encoder = AlbertModel(changed(config, vocab_size=tokenizer.vocab_size))
    service = make.of_task(task, encoder)
    saved_services.spread(service.model, 0.5)
    saved = saved_services.save(service, tmp_path / "model")
    assert sorted(saved.signatures) == ["serving_default", "tokens"]
    signature = ask.Signature(saved.loaded, "serving_default")
    requests = [
        ask.Request({"line": i}, {"text": text})
        for i, text in enumerate(tagged.HARD)
    ]
    found = signature(requests)
    expected = spans_of_task(
        task, service.model, tagged.HARD, tmp_path / "texts.jsonl"
    )
    assert sum(map(len, expected)) > 60
    assert len({s["label"] for spans in expected for s in spans}) > 1
    for text, answer, spans in zip(tagged.HARD, found, expected, strict=True):
        assert answer.keys() == {"line", "spans"}
        for ours, theirs in zip(answer["spans"], spans, strict=True):
            start, end = ours.pop("start_byte"), ours.pop("end_byte")
            assert text.encode()[start:end].decode() == ours["text"]
            assert ours.pop("score") == pytest.approx(theirs.pop("score"), 1e-4)
            assert ours == theirs
    for texts in ([], [""], ["\u200b", " "]):
        empty = saved.signatures["serving_default"](
            text=tf.constant(texts, tf.string)
        )
        assert empty["num_spans"].numpy().tolist() == [0] * len(texts)


def test_tokens_have_logits(config, tokenizer):
    task = tagging.TaggingTask(
        tokenizer, LENGTH, tagging.TaggingOptions("O\tB-x\tI-x")
    )
    service = make.of_task(task, AlbertModel(config))
    saved_services.spread(service.model)
    inputs = saved_services.pack(tokenizer, saved_services.TEXTS)
    found = service.functions["tokens"](
        *(inputs[name] for name in saved_services.IDS)
    )
    assert set(found) == {"logits", "sequence_output"}
    saved_services.assert_close(
        found["logits"], service.model(inputs)["logits"]
    )
