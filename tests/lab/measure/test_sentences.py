"""Vectors of any model, measured on tiny files."""

import dataclasses
import json
import lzma
import pathlib
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.common import prompts
from lab.measure import report, sentence_tasks, sentences, text_models
from tests.conftest import refused

TEXTS = ["I", "he", "Ivo", "Mara", "a lamp", "the lamp"]
PAIRS = zip(TEXTS, TEXTS[1:] + TEXTS[:1], range(6), strict=True)
LABELED = [("lamp " * n + word, word) for n in range(9) for word in ("a", "b")]
TABLES = {
    "stsb_en_dev": [("text", "text_pair", "score"), *PAIRS],
    "banking77_train": [("text", "label"), *LABELED],
    "tatoeba_de_en": [("text", "text_en"), *zip(TEXTS, TEXTS, strict=True)],
}
TASKS = "stsb_en_dev,banking77_8,banking77_all,squad,tatoeba_de,cost"


def write_saved_model(folder):
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def answer(text):
        length = tf.cast(tf.strings.length(text), tf.float32)
        return {"embedding": tf.stack([length, tf.ones_like(length)], -1)}

    tf.saved_model.save(module, folder, {"serving_default": answer})


def write_answers(folder):
    outputs = {"embedding": {"dtype": "float32"}}
    description = {"functions": {"tokens": {"outputs": outputs}}}
    (pathlib.Path(folder) / "model.json").write_text(json.dumps(description))
    (pathlib.Path(folder) / "answer.py").write_text(
        "class Model:\n"
        "    def __init__(self, folder): self.folder = folder\n"
        "    def answers(self, entries):\n"
        "        return [{'embedding': [len(e['text']), 1]} for e in entries]\n"
    )


@pytest.fixture(autouse=True)
def separate_modules(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "answer", raising=False)


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "model").mkdir()
    write_answers(tmp_path / "model")
    for name, rows in TABLES.items():
        text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
        path = tmp_path / "sentences" / f"{name}.tsv.xz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(lzma.compress(text.encode()))
    paragraphs = [
        {"context": text, "qas": [{"question": text}, {"question": text}]}
        for text in TEXTS
    ]
    (tmp_path / "squad").mkdir()
    content = json.dumps({"data": [{"paragraphs": paragraphs}]})
    (tmp_path / "squad/dev-v1.1.json").write_text(content)
    return sentences.SentencesOptions(
        model=str(tmp_path / "model"),
        data_dir=str(tmp_path),
        output_dir=str(tmp_path / "out"),
        tasks=TASKS,
    )


def test_tasks_are_written_and_not_measured_again(
    settings, tmp_path, monkeypatch, capsys
):
    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sentence_tasks, "_retrieval", fail)
        with pytest.raises(KeyboardInterrupt):
            sentences.run(settings)
    done = report.read(settings.output_dir)
    assert list(done) == ["stsb_en_dev", "banking77_8", "banking77_all"]
    with monkeypatch.context() as patch:
        patch.setattr(sentence_tasks, "_few_shot", fail)
        patch.setattr(sentence_tasks, "_similarity", fail)
        sentences.run(settings)
    table = (tmp_path / "out/measure.md").read_text()
    assert capsys.readouterr().out == table
    for row in (
        "| squad | first half of dev | 12 questions, 6 paragraphs | accuracy |",
        "| tatoeba_de | every second one | 6 pairs | from English | 100.00 |",
        "| stsb_en_dev | dev | 6 pairs | Spearman | ",
        "| banking77_8 | a fifth of train | 3 texts, 2 classes | accuracy | ",
    ):
        assert row in table
    found = report.read(settings.output_dir)
    assert len(found["banking77_8"]["results"]["scores"]["accuracy"]) == 10
    assert len(found["banking77_all"]["results"]["scores"]["accuracy"]) == 1
    (tmp_path / "model/more").write_text("")
    with refused("part stsb_en_dev, measured with other weights"):
        sentences.run(dataclasses.replace(settings, tasks="squad"))


def test_a_checkpoint_gives_vectors(model_dir):
    model = text_models.find(str(model_dir), 8)
    names = [pathlib.Path(path).name for path in model.files]
    checkpoint = "model.ckpt-best"
    data = f"{checkpoint}.data-00000-of-00001"
    assert names == [data, f"{checkpoint}.index", "spm.model"]
    vectors = text_models.Vectors(model.load)(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, 1e-5)
    # How far apart depends on the processor, which trained the model.
    assert (np.abs(vectors[0] - vectors[1:]).max(-1) > 1e-4).all()


@pytest.mark.parametrize("write", [write_saved_model, write_answers])
def test_exports_are_asked_for_vectors(tmp_path, write):
    write(str(tmp_path))
    model = text_models.find(str(tmp_path), None)
    vectors = text_models.Vectors(model.load)(["long", "", "long"])
    np.testing.assert_allclose(
        vectors, np.array([[4, 1], [0, 17**0.5], [4, 1]]) / 17**0.5, 1e-6
    )
    with refused("max_seq_length=9` is part of an export"):
        text_models.find(str(tmp_path), 9)


def test_a_foreign_folder_is_left_to_sentence_transformers(
    tmp_path, monkeypatch
):
    (tmp_path / "modules.json").write_text("[]")
    loaded = types.SimpleNamespace(
        max_seq_length=9, encode=lambda texts, **_: np.ones([len(texts), 4])
    )
    fake = types.SimpleNamespace(SentenceTransformer=lambda *_, **__: loaded)
    monkeypatch.setattr(text_models, "sentence_transformers", fake)
    model = text_models.find(str(tmp_path), 5)
    assert model.reader == "sentence-transformers"
    assert text_models.Vectors(model.load)(["a"]).tolist() == [[0.5] * 4]
    assert loaded.max_seq_length == 5
    (tmp_path / "modules.json").unlink()
    with refused("model=.* does not say which checkpoint is meant"):
        text_models.find(str(tmp_path), None)


def test_vectors_that_are_not_finite_are_refused():
    vectors = text_models.Vectors(
        lambda: lambda t: np.full([len(t), 2], np.inf)
    )
    with refused("not finite"):
        vectors(["a"])


def test_few_examples_are_drawn_of_each_class():
    seen = []

    def vectors(texts):
        seen.append(len(texts))
        return np.array([[text == "a", text == "b"] for text in texts], float)

    one = {"text": ["a"] * 30 + ["b"] * 10, "label": ["x"] * 30 + ["y"] * 10}
    two = {"text": ["a", "b", "b"], "label": ["x", "y", "x"]}
    found = sentence_tasks._few_shot(vectors, [one, two], 8)
    assert found["examples"] == "3 texts, 2 classes"
    assert found["scores"]["accuracy"] == [pytest.approx(200 / 3)] * 10
    assert seen == [40, 3]
    assert sentence_tasks._few_shot(vectors, [one], 8)["examples"].startswith(
        "8 "
    )


def test_prompts_are_in_the_fingerprint():
    texts = '{"query": "q: "}'
    fingerprints = {
        text_models.TextModel("a", [], None, prompting).fingerprint
        for prompting in (
            prompts.NONE,
            prompts.PromptOptions(texts, ""),
            prompts.PromptOptions(texts, "query"),
        )
    }
    assert len(fingerprints) == 3


def test_a_group_has_its_test_parts_on_request_only():
    def choose(name, *, with_tests=False):
        return sentence_tasks.choose([name], with_tests=with_tests)

    tests = {
        "sts12",
        "sts13",
        *(f"stsb_{x}_test" for x in ("en", "de", "ja", "zh")),
    }
    assert {*choose("sts", with_tests=True)} - {*choose("sts")} == tests
    assert choose("sts13") == ["sts13"]
    with refused("'stsb' is no name for `tasks`. There are .*sts13"):
        choose("stsb")


@pytest.mark.parametrize("text", ["text\tlabel\n", "text\tlabel\na\tb\tc\n"])
def test_a_damaged_table_is_refused(text):
    with refused("d.tsv is no table"):
        sentence_tasks._columns("d.tsv", text.encode())
