"""Embeddings of tasks against transformers' ERNIE, with the same weights.

Here each task has rows of its own in the table of segments; there is a second
table. With the sums of their rows as ours, all is the same. `make test-torch`.
"""

import numpy as np
import pytest

from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.network.encoder import AlbertModel
from tests.conftest import PARITY_ATOL
from tests.parity.conftest import assert_close

pytestmark = pytest.mark.torch

TASKS, SEGMENTS, LENGTH, VOCABULARY = 3, 2, 16, 53


@pytest.fixture
def theirs():
    import torch
    import transformers

    torch.manual_seed(5)
    config = transformers.ErnieConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=32,
        type_vocab_size=SEGMENTS,
        use_task_id=True,
        task_type_vocab_size=TASKS,
    )
    model = transformers.ErnieModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


@pytest.fixture
def ours(theirs, tmp_path):
    """Our encoder, by way of a folder of BERT."""
    import torch
    import transformers

    values = theirs.config.to_dict()
    values["type_vocab_size"] = TASKS * SEGMENTS
    bert = transformers.BertModel(transformers.BertConfig(**values))
    weights = theirs.state_dict()
    tasks = weights.pop("embeddings.task_type_embeddings.weight")
    name = "embeddings.token_type_embeddings.weight"
    rows = tasks[:, None] + weights[name][None]
    weights[name] = torch.reshape(rows, [TASKS * SEGMENTS, -1])
    weights.pop("embeddings.token_type_ids", None)
    weights.pop("embeddings.position_ids", None)
    wrong = bert.load_state_dict(weights, strict=False)
    assert not wrong.unexpected_keys and not wrong.missing_keys
    bert.save_pretrained(str(tmp_path))
    checkpoint = checkpoint_reader.read(str(tmp_path))
    model = AlbertModel(checkpoint.config)
    restoring.restore(model, checkpoint)
    return model


def test_outputs_of_each_task_are_equal(theirs, ours):
    import torch

    generator = np.random.default_rng(6)
    ids = generator.integers(1, VOCABULARY, [2, LENGTH])
    mask = (np.arange(LENGTH) < [[LENGTH], [11]]).astype(np.int32)
    segments = (np.arange(LENGTH) >= 5) * mask
    seen = []
    for task in range(TASKS):
        with torch.no_grad():
            expected = theirs(
                torch.tensor(ids),
                torch.tensor(mask),
                token_type_ids=torch.tensor(segments),
                task_type_ids=torch.full_like(torch.tensor(ids), task),
            )
        found = ours(
            {
                "input_ids": ids.astype(np.int32),
                "input_mask": mask,
                # As `passages.PassageDrawer` counts them.
                "segment_ids": segments + SEGMENTS * task,
            }
        )
        for name, value in (
            ("sequence_output", expected.last_hidden_state),
            ("pooled_output", expected.pooler_output),
        ):
            assert_close(found[name], value.numpy())
        seen.append(found["pooled_output"].numpy())
    assert np.abs(seen[0] - seen[1]).max() > 100 * PARITY_ATOL
