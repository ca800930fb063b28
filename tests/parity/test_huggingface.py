"""Weights of Hugging Face folders, read and written, against transformers.

The first half compares with a recording; see tests/fixtures/README.md. The
second half runs transformers: `make test-torch`.
"""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.checkpoints import (
    checkpoint_reader,
    huggingface,
    restoring,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import (
    classification,
    multiple_choice,
    pretraining,
    question_answering,
    token_classification,
)
from albert_tf.model.network.encoder import AlbertModel
from tests import hugging_face_files
from tests.conftest import FIXTURES, PARITY_ATOL

RECORDED = FIXTURES / "huggingface_tiny"


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=PARITY_ATOL, rtol=0)


@pytest.fixture(scope="module")
def recording():
    """Our outputs with the recorded weights, and the recorded outputs."""
    config = huggingface.read_config(str(RECORDED / "config.json"))
    model = pretraining.AlbertPretrainer(AlbertModel(config))
    weights = huggingface.read_weights(str(RECORDED))
    variables = {checkpoint_reader.name_of(v): v for v in model.variables}
    assert variables.keys() == weights.keys()
    for name, value in weights.items():
        variables[name].assign(value)
    values = dict(np.load(RECORDED / "fixture.npz"))
    batch = {
        name: tf.constant(values[name], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    size, length = batch["input_ids"].shape
    batch["masked_lm_positions"] = tf.tile([tf.range(length)], [size, 1])
    return {**model.encoder(batch), **model(batch)}, values


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("sequence_output", "sequence_output"),
        ("pooled_output", "pooled_output"),
        ("masked_lm_logits", "prediction_logits"),
        ("sentence_order_logits", "sop_logits"),
    ],
)
def test_outputs_equal_the_recording(recording, ours, theirs):
    outputs, values = recording
    assert_close(outputs[ours], values[theirs])


def make_config(**changes):
    return AlbertConfig(
        **{
            "vocab_size": 53,
            "embedding_size": 8,
            "hidden_size": 24,
            "num_hidden_layers": 4,
            "num_hidden_groups": 2,
            "inner_group_num": 2,
            "num_attention_heads": 3,
            "intermediate_size": 40,
            "max_position_embeddings": 32,
            **changes,
        }
    )


def make_model(kind, config):
    """Make one of our models, with no bias at 0."""
    encoder = AlbertModel(config)
    model = kind(encoder)
    generator = np.random.default_rng(12345)
    for variable in model.variables:
        noise = generator.normal(0, 0.1, variable.shape)
        variable.assign_add(tf.cast(noise, tf.float32))
    return model


def make_batch():
    """Three texts of 16 tokens, two of them padded, with two segments."""
    generator = np.random.default_rng(54321)
    mask = np.arange(16) < np.array([[16], [11], [7]])
    return {
        "input_ids": generator.integers(1, 53, [3, 16], np.int32) * mask,
        "input_mask": mask.astype(np.int32),
        "segment_ids": (np.arange(16) >= 5).astype(np.int32) * mask,
        "masked_lm_positions": np.tile(np.arange(16, dtype=np.int32), [3, 1]),
    }


def run_transformers(model, folder, architecture, batch):
    """Export our model; return transformers' outputs as NumPy arrays.

    Every weight must be used, except the pooler where the class has none.
    """
    import torch
    import transformers

    weights = {checkpoint_reader.name_of(v): v.numpy() for v in model.variables}
    config = getattr(model, "encoder", model).config
    hugging_face_files.write(folder, config, weights)
    loaded, report = getattr(transformers, architecture).from_pretrained(
        str(folder), output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    assert all(".pooler." in name for name in report["unexpected_keys"])
    theirs = {
        "input_ids": batch["input_ids"],
        "attention_mask": batch["input_mask"],
        "token_type_ids": batch["segment_ids"],
    }
    with torch.no_grad():
        outputs = loaded.eval()(
            **{name: torch.tensor(value) for name, value in theirs.items()}
        )
    return {name: value.numpy() for name, value in outputs.items()}


CONFIGS = {
    "groups": {},
    "equal_sizes": {"embedding_size": 24},
    "gelu_erf": {"hidden_act": "gelu_erf"},
    "unshared": {"num_hidden_groups": 1, "share": "none"},
    "unequal_groups": {"num_hidden_layers": 5, "num_hidden_groups": 3},
}


@pytest.mark.torch
@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS)
def test_transformers_reads_our_pretrainer(tmp_path, changes):
    model = make_model(pretraining.AlbertPretrainer, make_config(**changes))
    batch = make_batch()
    theirs = run_transformers(model, tmp_path, "AlbertForPreTraining", batch)
    ours = model(batch)
    assert_close(ours["masked_lm_logits"], theirs["prediction_logits"])
    assert_close(ours["sentence_order_logits"], theirs["sop_logits"])


@pytest.mark.torch
def test_transformers_reads_our_encoder(tmp_path):
    model = make_model(lambda encoder: encoder, make_config())
    batch = make_batch()
    theirs = run_transformers(model, tmp_path, "AlbertModel", batch)
    ours = model(batch)
    assert_close(ours["sequence_output"], theirs["last_hidden_state"])
    assert_close(ours["pooled_output"], theirs["pooler_output"])


@pytest.mark.torch
@pytest.mark.parametrize("labels", [1, 2, 3])
def test_transformers_reads_our_classifier(tmp_path, labels):
    model = make_model(
        lambda e: classification.AlbertClassifier(e, labels), make_config()
    )
    batch = make_batch()
    theirs = run_transformers(
        model, tmp_path, "AlbertForSequenceClassification", batch
    )
    assert_close(model(batch)["logits"], theirs["logits"])


@pytest.mark.torch
def test_transformers_reads_our_multiple_choice(tmp_path):
    model = make_model(multiple_choice.AlbertMultipleChoice, make_config())
    batch = {name: value[None] for name, value in make_batch().items()}
    theirs = run_transformers(model, tmp_path, "AlbertForMultipleChoice", batch)
    assert_close(model(batch)["logits"], theirs["logits"])


@pytest.mark.torch
def test_transformers_reads_our_question_answering(tmp_path):
    model = make_model(question_answering.AlbertSquadV1, make_config())
    batch = make_batch()
    theirs = run_transformers(
        model, tmp_path, "AlbertForQuestionAnswering", batch
    )
    ours = model(batch)
    for name in ("start_logits", "end_logits"):
        assert_close(ours[name], theirs[name])


@pytest.mark.torch
@pytest.mark.parametrize(
    "architecture",
    [
        "AlbertModel",
        "AlbertForPreTraining",
        "AlbertForMaskedLM",
        "AlbertForSequenceClassification",
        "AlbertForQuestionAnswering",
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_transformers_saves_is_read_in_full(tmp_path, architecture, dtype):
    import torch
    import transformers

    config = make_config()
    theirs = getattr(transformers, architecture)(
        transformers.AlbertConfig(**{**vars(config), "hidden_act": "gelu_new"})
    ).to(getattr(torch, dtype))
    theirs.save_pretrained(str(tmp_path))
    weights = huggingface.read_weights(str(tmp_path))
    table = theirs.get_input_embeddings().weight.detach().float().numpy()
    np.testing.assert_array_equal(
        weights["bert/embeddings/word_embeddings"], table
    )
    assert sum(value.size for value in weights.values()) == sum(
        value.numel() for value in theirs.parameters()
    )


READ = {
    "AlbertModel": lambda encoder: encoder,
    "AlbertForPreTraining": pretraining.AlbertPretrainer,
    "AlbertForMaskedLM": lambda e: pretraining.AlbertPretrainer(e, False),
    "AlbertForSequenceClassification": (
        lambda e: classification.AlbertClassifier(e, 2)
    ),
    "AlbertForMultipleChoice": multiple_choice.AlbertMultipleChoice,
    "AlbertForQuestionAnswering": question_answering.AlbertSquadV1,
    "AlbertForTokenClassification": (
        lambda e: token_classification.AlbertTokenClassifier(e, 2)
    ),
}
# What they have instead of a name of ours.
OUTPUTS = {
    "sequence_output": "last_hidden_state",
    "pooled_output": "pooler_output",
    "masked_lm_logits": "logits",
    "sentence_order_logits": "sop_logits",
    "logits": "logits",
    "start_logits": "start_logits",
    "end_logits": "end_logits",
}


@pytest.mark.torch
@pytest.mark.parametrize("embedding_size", [8, 24])
@pytest.mark.parametrize(
    ("architecture", "pooler"),
    [
        ("AlbertModel", True),
        ("AlbertModel", False),
        ("AlbertForPreTraining", True),
        ("AlbertForMaskedLM", False),
        ("AlbertForSequenceClassification", True),
        ("AlbertForMultipleChoice", True),
        ("AlbertForQuestionAnswering", False),
        ("AlbertForTokenClassification", False),
    ],
)
def test_outputs_of_what_transformers_saves_are_equal(
    tmp_path, architecture, pooler, embedding_size
):
    import torch
    import transformers

    values = vars(make_config(embedding_size=embedding_size))
    theirs_config = transformers.AlbertConfig(
        **{**values, "hidden_act": "gelu_new"}
    )
    torch.manual_seed(7)
    theirs = getattr(transformers, architecture)(theirs_config)
    if architecture == "AlbertModel" and not pooler:
        theirs = transformers.AlbertModel(
            theirs_config, add_pooling_layer=False
        )
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    has_pooler = any("pooler" in n for n, _ in theirs.named_parameters())
    assert has_pooler == pooler
    theirs.eval().save_pretrained(str(tmp_path))

    checkpoint = checkpoint_reader.read(str(tmp_path))
    assert checkpoint.config.map_equal_sizes == (embedding_size == 24)
    ours = READ[architecture](AlbertModel(checkpoint.config))
    new = () if pooler else ("bert/pooler",)
    restoring.restore(ours, checkpoint, new_scopes=new)
    batch = make_batch()
    if architecture == "AlbertForMultipleChoice":
        batch = {name: value[None] for name, value in batch.items()}
    inputs = {
        "input_ids": batch["input_ids"],
        "attention_mask": batch["input_mask"],
        "token_type_ids": batch["segment_ids"],
    }
    with torch.no_grad():
        expected = theirs(**{n: torch.tensor(v) for n, v in inputs.items()})
    actual = ours(batch)
    if architecture == "AlbertForPreTraining":
        assert_close(actual["masked_lm_logits"], expected["prediction_logits"])
    compared = [
        name
        for name, other in OUTPUTS.items()
        if name in actual and expected.get(other) is not None
    ]
    assert compared
    for name in compared:
        assert_close(actual[name], expected[OUTPUTS[name]].numpy())
