"""Ask sentence-transformers models for the vectors of all lines of a file.

    python -m lab.trials.teacher_vectors SENTENCES MODEL OUTPUT.npy [MOST_LINES]

It asks in bfloat16, for 8,192 lines at a time in the order of the file, and
keeps each part beside OUTPUT.npy; started again, it goes on there.
"""

import os
import sys

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

_PART, _BATCH, _LENGTH = 8192, 32, 128


def vectors(tokenizer, model, texts: list[str]) -> np.ndarray:
    """Return the means of the states, float16 [N, W], of length 1."""
    order = np.argsort([len(text) for text in texts], kind="stable")
    result = np.zeros([len(texts), model.config.hidden_size], np.float16)
    for start in range(0, len(texts), _BATCH):
        rows = order[start : start + _BATCH]
        batch = tokenizer(
            [texts[row] for row in rows],
            padding=True,
            truncation=True,
            max_length=_LENGTH,
            return_tensors="pt",
        )
        with torch.inference_mode():
            states = model(**batch).last_hidden_state.float()
        mask = batch["attention_mask"][..., None].float()
        means = (states * mask).sum(1) / mask.sum(1)
        result[rows] = torch.nn.functional.normalize(means, dim=-1).numpy()
    return result


def main(sentences: str, folder: str, output: str, most: str = "0") -> None:
    with open(sentences, encoding="utf-8") as lines:
        texts = lines.read().splitlines()[: int(most) or None]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.bfloat16).eval()
    parts = []
    for start in range(0, len(texts), _PART):
        part = f"{output}.part{start:07d}.npy"
        if not os.path.exists(part):
            chunk = vectors(tokenizer, model, texts[start : start + _PART])
            with open(f"{part}.new", "wb") as stream:
                np.save(stream, chunk)
            os.replace(f"{part}.new", part)
            print(part, flush=True)
        parts.append(np.load(part))
    with open(f"{output}.new", "wb") as stream:
        np.save(stream, np.concatenate(parts))
    os.replace(f"{output}.new", output)


if __name__ == "__main__":
    main(*sys.argv[1:])
