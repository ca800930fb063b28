"""Show what training draws from passages: segments, a label, what is hidden."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.common import random_streams
from albert_tf.data import layouts, masking
from albert_tf.text import tokenization
from albert_tf.training import pretraining_drawer, pretraining_options
from data_prep.inspection import record_text


def draw(
    passages: Sequence[Mapping[str, Any]],
    recipe: pretraining_options.RecipeOptions,
    tokenizer: tokenization.AnyTokenizer,
) -> dict[str, np.ndarray]:
    """Return an example of each passage, as long as the longest of them."""
    length = max(len(passage["tokens"]) for passage in passages) + 2
    drawer = pretraining_drawer.make(
        recipe,
        masking.MaskingOptions(max_predictions_per_seq=length // 6 + 2),
        tokenizer,
        records="passages",
        max_seq_length=length,
        num_segments=2,
    )
    arrays = {
        name: np.stack(
            [np.resize([*p[name], *[0] * length], length - 2) for p in passages]
        )
        for name in ("tokens", "marks")
    }
    arrays["document"] = np.array([p["document"][0] for p in passages])
    keys = np.arange(len(passages), dtype=np.uint64)
    keys = random_streams.derive_array(keys, 0)
    return {**arrays, **drawer.draw(arrays, keys)}


def lines(
    drawn: Mapping[str, np.ndarray],
    row: int,
    text: record_text.PieceText,
    mask_id: int,
    tasks: Sequence[str],
) -> list[str]:
    """Return an example, of one of the tasks if there are any, as lines."""
    one = {name: values[row] for name, values in drawn.items()}
    ids = one["input_ids"][one["input_mask"] > 0].tolist()
    found = []
    if tasks:
        label, number = (
            int(one[name][0])
            for name in ("next_sentence_labels", "sentence_task")
        )
        known = "none" if label == layouts.NO_LABEL else label
        found.append(f"  {tasks[number]}, label: {known}")
    if "target_ids" in one:
        target = one["target_ids"][one["target_ids"] > 0].tolist()
        return [
            *found,
            record_text.wrap("drawn", text.join(ids, {}, mask_id)),
            record_text.wrap("target", text.join(target, {}, mask_id)),
        ]
    places = one["masked_lm_positions"][one["masked_lm_weights"] > 0]
    labels = dict(
        zip(places.tolist(), one["masked_lm_ids"].tolist(), strict=False)
    )
    if "ranks" in one:
        ids = one["query_ids"][: len(ids)].tolist()
        order = sorted(labels, key=lambda place: one["ranks"][place])
        asked = [text.word_and_start(labels[place])[0] for place in order]
        words = ", ".join(word or "▁" for word in asked)
        found.append(record_text.wrap("order", words))
    drawn_text = text.join(ids, labels, mask_id)
    return [*found, record_text.wrap("drawn", drawn_text)]
