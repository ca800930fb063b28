"""Paths of the recorded runs of the original.

The repository has small copies. The folder beside the project, if it exists,
may have more files of them and further recordings.
"""

import pathlib

import numpy as np
import tensorflow as tf

from albert_tf.model.config import AlbertConfig
from tests.conftest import FIXTURES, ROOT

_SHARED = ROOT.parent / "shared" / "fixtures"


def folders(prefix: str) -> dict[str, pathlib.Path]:
    return {
        path.name: path
        for parent in (FIXTURES, _SHARED)
        for path in sorted(parent.glob(f"{prefix}*"))
        if path.is_dir()
    }


def parameters(prefix: str) -> list[str]:
    return sorted(folders(prefix))


class Recording:
    def __init__(self, name: str):
        self.folder = folders(name)[name]
        self.config = AlbertConfig.from_json_file(
            str(self.folder / "albert_config.json")
        )
        self.values = dict(np.load(self.folder / "fixture.npz"))

    def checkpoint(self, step: int) -> str:
        return str(self.folder / f"model.ckpt-{step}")

    def batch(self, *names: str) -> dict[str, tf.Tensor]:
        """Return inputs by name; all inputs if no name is given."""
        known = (
            *("input_ids", "input_mask", "segment_ids", "label_ids"),
            *("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"),
            *("next_sentence_labels", "p_mask", "is_impossible"),
            *("start_positions", "end_positions"),
        )
        chosen = names or [name for name in known if name in self.values]
        batch = {name: tf.constant(self.values[name]) for name in chosen}
        if "next_sentence_labels" in self.values or not names:
            count = len(self.values["input_ids"])
            batch["is_real_example"] = tf.ones([count], tf.int32)
        return batch
