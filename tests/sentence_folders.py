"""Folders of sentence-transformers without an encoder, for tests."""

import json
import pathlib

from albert_tf.model.checkpoints import sentence_modules

OLD = {
    "word_embedding_dimension": 8,
    "pooling_mode_cls_token": False,
    "pooling_mode_mean_tokens": True,
}
DENSE = {
    "in_features": 8,
    "out_features": 5,
    "bias": True,
    "activation_function": sentence_modules.IDENTITY,
}


def write(folder: pathlib.Path, kinds, pooling=OLD, dense=DENSE, **files):
    kinds = ["Transformer", *kinds]
    modules = [
        {"type": f"a.b.{kind}", "path": f"{n}_{kind}" if n else ""}
        for n, kind in enumerate(kinds)
    ]
    contents = {
        "modules.json": modules,
        "1_Pooling/config.json": pooling,
        "2_Dense/config.json": dense,
        **{f"{name}.json": value for name, value in files.items()},
    }
    for name, value in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    return str(folder)
