"""ALBERT for TensorFlow 2: pretrain, finetune and serve a lite BERT.

    import albert_tf

    config = albert_tf.AlbertConfig.from_json_file("albert_config.json")
    encoder = albert_tf.AlbertModel(config)
    albert_tf.restore(encoder, "model.ckpt-best")

The names of `__all__` stay; everything else may move between versions.
Importing this package loads nothing until a name is used. It sets three
environment variables, unless they are set: `TF_USE_LEGACY_KERAS` asks
TensorFlow for Keras 2 (`tf_keras`), which tf-models-official is built on, so
that one process never holds two of them; `TF_ENABLE_ONEDNN_OPTS` turns oneDNN
on, which TensorFlow leaves off on processors without AVX512;
`TF_CPP_MIN_LOG_LEVEL` hides what TensorFlow says about itself.
`TF_CPP_MIN_LOG_LEVEL=0` shows everything.
"""

import importlib
import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

# `python -m albert_tf.export` with another Python than that of `make setup`.
# Here, because other files cannot be read by an old one.
if sys.argv[:1] == ["-m"] and (
    sys.version_info < (3, 11) or importlib.util.find_spec("absl") is None
):
    print(
        f"error: {sys.executable} is Python {sys.version.split()[0]}. What is "
        "needed is Python 3.11 to 3.13 with the packages that `make setup` "
        "installs. After it, type `. .venv/bin/activate` in the project's "
        "folder, or give .venv/bin/python in place of python.",
        file=sys.stderr,
    )
    sys.exit(2)

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# 2 leaves errors. One of them, "failed call to cuInit", stands for no error
# where there is no NVIDIA driver.
os.environ.setdefault(
    "TF_CPP_MIN_LOG_LEVEL", "2" if os.path.exists("/dev/nvidiactl") else "3"
)

__version__ = "0.1.0"

if TYPE_CHECKING:
    from albert_tf.model.checkpoints.restoring import restore
    from albert_tf.model.config import AlbertConfig
    from albert_tf.model.heads.classification import AlbertClassifier
    from albert_tf.model.heads.pretraining import AlbertPretrainer
    from albert_tf.model.network.encoder import AlbertModel
    from albert_tf.tasks.race.model import AlbertMultipleChoice
    from albert_tf.tasks.squad.model import AlbertSquadV1, AlbertSquadV2
    from albert_tf.text.tokenization import Tokenizer
    from albert_tf.text.wordpiece import WordPieceTokenizer

__all__ = [
    "AlbertClassifier",
    "AlbertConfig",
    "AlbertModel",
    "AlbertMultipleChoice",
    "AlbertPretrainer",
    "AlbertSquadV1",
    "AlbertSquadV2",
    "Tokenizer",
    "WordPieceTokenizer",
    "restore",
]

_MODULES = {
    "AlbertClassifier": "albert_tf.model.heads.classification",
    "AlbertConfig": "albert_tf.model.config",
    "AlbertModel": "albert_tf.model.network.encoder",
    "AlbertMultipleChoice": "albert_tf.tasks.race.model",
    "AlbertPretrainer": "albert_tf.model.heads.pretraining",
    "AlbertSquadV1": "albert_tf.tasks.squad.model",
    "AlbertSquadV2": "albert_tf.tasks.squad.model",
    "Tokenizer": "albert_tf.text.tokenization",
    "WordPieceTokenizer": "albert_tf.text.wordpiece",
    "restore": "albert_tf.model.checkpoints.restoring",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module 'albert_tf' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
