"""Models of transformers beside ours, for tests with the mark `torch`."""

import numpy as np

from albert_tf.model.config import AlbertConfig
from tests import hugging_face_files
from tests.albert_tf.model import passes
from tests.parity.conftest import assert_close

# What theirs have instead of a name of ours; the first that a model has.
OUTPUTS = {
    "sequence_output": ("last_hidden_state",),
    "pooled_output": ("pooler_output",),
    "masked_lm_logits": ("prediction_logits", "logits"),
    "sentence_order_logits": ("sop_logits", "seq_relationship_logits"),
    "logits": ("logits",),
    "start_logits": ("start_logits",),
    "end_logits": ("end_logits",),
}


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


def make_batch(vocab_size=53):
    """Three texts of 16 tokens, two of them padded, with two segments."""
    generator = np.random.default_rng(54321)
    mask = np.arange(16) < np.array([[16], [11], [7]])
    ids = generator.integers(1, vocab_size, [3, 16], np.int32)
    return {
        "input_ids": ids * mask,
        "input_mask": mask.astype(np.int32),
        "segment_ids": (np.arange(16) >= 5).astype(np.int32) * mask,
        "masked_lm_positions": np.tile(np.arange(16, dtype=np.int32), [3, 1]),
    }


def make(architecture, config, **how):
    """A new model of theirs in our shape, with no bias at 0."""
    import torch
    import transformers

    torch.manual_seed(7)
    family = architecture.split("For")[0].removesuffix("Model")
    kind = getattr(transformers, f"{family}Config")
    is_albert = family == "Albert"
    values = vars(config) | {"hidden_act": "gelu_new" if is_albert else "gelu"}
    if family in ("MPNet", "XLMRoberta"):  # Two positions are of padding.
        values["max_position_embeddings"] += 2
    labels = {n: how.pop(n) for n in ("id2label", "label2id") if n in how}
    model = getattr(transformers, architecture)(kind(**values, **labels), **how)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def load(folder, architecture, **how):
    """Load a folder; every weight is used, but a pooler that has no place."""
    import transformers

    model, report = getattr(transformers, architecture).from_pretrained(
        str(folder), output_loading_info=True, **how
    )
    assert not report["mismatched_keys"]
    for kind in ("missing_keys", "unexpected_keys"):
        assert all("pooler." in name for name in report[kind]), report
    return model.eval(), report


def read_ours(model, folder, architecture):
    """What transformers reads of our model, all of it."""
    config = getattr(model, "encoder", model).config
    hugging_face_files.write(folder, config, passes.values(model))
    theirs, report = load(folder, architecture)
    assert not report["missing_keys"]
    return theirs


def outputs_of(model, batch):
    import torch

    inputs = {
        "input_ids": batch["input_ids"],
        "attention_mask": batch["input_mask"],
        "token_type_ids": batch["segment_ids"],
    }
    with torch.no_grad():
        outputs = model(**{n: torch.tensor(v) for n, v in inputs.items()})
    return {name: value.numpy() for name, value in outputs.items()}


def assert_same_outputs(actual, expected):
    """Compare all that both have; return its names."""
    compared = {
        name: expected[next(other for other in others if other in expected)]
        for name, others in OUTPUTS.items()
        if name in actual and expected.keys() & set(others)
    }
    assert compared
    for name, value in compared.items():
        assert_close(actual[name], value)
    return list(compared)
