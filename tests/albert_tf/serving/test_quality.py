"""The size of an export, and what its outputs score."""

import numpy as np

from albert_tf.finetuning import batches
from albert_tf.serving import quality


def test_all_files_count(tmp_path):
    assert quality.num_bytes(str(tmp_path)) == 0
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "b" / "c" / "d").write_bytes(b"45")
    assert quality.num_bytes(str(tmp_path)) == 5


class Task:
    max_seq_length = 16

    def score(self, outputs, examples):
        right = outputs["logits"].argmax(-1) == np.array(examples)
        return {"accuracy": float(right.mean())}


def test_score_of_what_an_export_says(monkeypatch):
    """Batches have the full length, and vectors are not collected."""
    seen = []

    def ask(batch):
        return {
            "logits": np.eye(2)[batch["input_ids"][:, 0]],
            "sequence_output": None,
            "pooled_output": None,
        }

    def ask_batches(function, task, examples, batch_size, length):
        seen.append((batch_size, length))
        ids = np.array([[1], [0], [1]])
        outputs = function({"input_ids": ids})
        assert outputs.keys() == {"logits"}
        return outputs

    monkeypatch.setattr(batches, "ask", ask_batches)
    scores = quality.score(ask, Task(), [1, 0, 0])
    assert scores == {"accuracy": 2 / 3}
    assert seen == [(32, 16)]
