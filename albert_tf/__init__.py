"""ALBERT for TensorFlow 2: pretrain, finetune and serve a lite BERT.

Importing this package starts nothing. It only asks TensorFlow for Keras 2
(`tf_keras`), the Keras that tf-models-official is built on, so that one process
never holds two of them.
"""

import os

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

__version__ = "0.1.0"
