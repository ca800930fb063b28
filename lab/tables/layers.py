r"""Draw how far each layer moves its input, as ALBERT's Figure 1.

    python -m lab.tables.layers --runs=shared=RUN1,own=RUN2 \
        --text_file=CORPUS/held_out.txt --output_dir=OUTPUT

For every layer: the L2 distance of a token's input and output, and the angle
between them in degrees, as means over the tokens of windows of the text. The
first layer's input is the embeddings in the hidden size. Writes layers.json and
layers.png. The figure has number 2 in the paper's first edition.
"""

import dataclasses
import io
import os
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.common import (
    errors,
    files,
    options,
    outputs,
    ranges,
    strict_json,
)
from albert_tf.common.options import checked, option
from albert_tf.text import tokenization
from lab.measure import held_out, scoring

_WINDOW_WORDS, _SEED = 32, 2019
_LABELS = {"l2": "L2 distance", "degrees": "angle, degrees"}


@dataclasses.dataclass(frozen=True)
@checked
class LayersOptions:
    """Options of layers."""

    runs: str = option(help="Models, as NAME=FOLDER, with commas.")
    text_file: str = option(help="Text, an empty line between documents.")
    output_dir: str = option(help="Folder for layers.json and layers.png.")
    windows: int = option(64, "Windows of text.", within=ranges.EXAMPLES)
    overwrite: bool = option(False, "Whether to replace existing files.")


def movements(states: list[np.ndarray]) -> dict[str, list[float]]:
    """Return the mean L2 distance and angle of each pair of neighbours.

    Args:
        states: Input of the first layer and output of each, float [tokens, H].

    Example:
        [[1, 0]] and [[0, 1]] give {"l2": [1.414], "degrees": [90.0]}
    """
    found: dict[str, list[float]] = {"l2": [], "degrees": []}
    for x, y in zip(states, states[1:], strict=False):
        norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
        cosines = np.clip(np.sum(x * y, axis=1) / norms, -1, 1)
        found["l2"].append(float(np.linalg.norm(y - x, axis=1).mean()))
        found["degrees"].append(float(np.degrees(np.arccos(cosines)).mean()))
    return found


def measure(folder: str, text: str, count: int) -> dict[str, list[float]]:
    """Return the movements in a model, over windows of a text."""
    nothing = tokenization.VocabularyOptions()
    masked_lm = scoring.Source.find(folder, None, nothing).load()
    tokenizer, encoder = masked_lm.tokenizer, masked_lm.encoder
    most = encoder.config.max_position_embeddings - 2
    rows = [
        [
            tokenizer.cls_id,
            *tokenizer.encode(" ".join(window.words))[:most],
            tokenizer.sep_id,
        ]
        for window in held_out.draw(text, _WINDOW_WORDS, count, _SEED)
    ]
    ids = tf.ragged.constant(rows, tf.int32)
    mask = tf.ones_like(ids).to_tensor()
    outputs = encoder({"input_ids": ids.to_tensor(), "input_mask": mask})
    x = outputs["embedding_output"]
    if encoder.embedding_mapping is not None:
        x = encoder.embedding_mapping(x)
    layers = [x, *outputs["all_encoder_layers"]]
    return movements([layer.numpy()[mask.numpy() > 0] for layer in layers])


def _draw(found: dict[str, dict[str, list[float]]]) -> Any:
    import matplotlib.figure  # Slow to import.

    figure = matplotlib.figure.Figure(figsize=(10, 4), layout="constrained")
    for panel, key in zip(figure.subplots(1, 2), _LABELS, strict=True):
        for name, values in found.items():
            numbers = range(1, len(values[key]) + 1)
            panel.plot(numbers, values[key], marker=".", label=name)
        panel.set_xlabel("layer")
        panel.set_ylabel(_LABELS[key])
        panel.grid(alpha=0.3)
        panel.legend()
    return figure


def run(settings: LayersOptions) -> None:
    """Measure the models; write numbers and picture."""
    runs = [item.partition("=") for item in settings.runs.split(",")]
    names = {name for name, _, folder in runs if name and folder}
    if len(names) < len(runs):
        raise errors.UserError(
            f"`runs={settings.runs}` must be NAME=FOLDER, with commas, each "
            "with another name."
        )
    text = "\n".join(files.read_lines(settings.text_file, "text_file"))
    numbers, curves = (
        os.path.join(settings.output_dir, f"layers.{kind}")
        for kind in ("json", "png")
    )
    outputs.check(settings, "output_dir", [numbers, curves])
    found = {
        name: measure(folder, text, settings.windows)
        for name, _, folder in runs
    }
    picture = io.BytesIO()
    _draw(found).savefig(picture, format="png", dpi=80)
    files.make_folder(settings.output_dir, "output_dir")
    content = strict_json.dumps(found, indent=2) + "\n"
    files.write_together(
        {numbers: content.encode(), curves: picture.getvalue()}
    )


if __name__ == "__main__":
    options.run_script(run, LayersOptions)
