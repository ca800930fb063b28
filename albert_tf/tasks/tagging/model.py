"""The model of tags of words: one linear layer on the output for each token.

Source: Devlin et al., arXiv 1810.04805, section 5.3.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.model.heads import classification, head, model_with_head
from albert_tf.model.losses import label_objectives, objectives
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.tagging.task import TaggingTask

SCOPE = "cls/tags"


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertTokenClassifier(model_with_head.ModelWithHead):
    """An encoder with one linear layer on its sequence output.

    The encoder's pooler has no part in it and keeps its weights.
    """

    reads_pooler = False

    def __init__(
        self,
        encoder: AlbertModel,
        num_labels: int,
        dropout: float = classification.DROPOUT,
    ):
        """Add a new classifier; `dropout` is that of the sequence output."""
        super().__init__(encoder, "albert_token_classifier", dropout)
        self.num_labels = num_labels
        self.add_output(f"{SCOPE}/", num_labels)

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Return `logits` float32 [B, S, num_labels], for padding too.

        See `with_exits` for training.
        """
        outputs = self.encode(inputs, training, dropout_seed)
        dropout = self.head_dropout(training, dropout_seed)

        def answer(states: dict[str, Any], depth: int) -> dict[str, Any]:
            x = dropout(states["sequence_output"], self.dropout)
            return {"logits": self.token_scores(x, depth)}

        return self.with_exits(answer, outputs, inputs, training)


HEADS = (
    head.Head(
        SCOPE,
        f"{SCOPE}/output_bias",
        AlbertTokenClassifier,
        reads_pooler=False,
        labels_option="tags",
        transformers={
            "ForTokenClassification": ((f"{SCOPE}/", "output", "classifier"),)
        },
        pipelines={"ForTokenClassification": "token-classification"},
    ),
)


def make(task: TaggingTask, encoder: AlbertModel) -> keras.Model:
    return AlbertTokenClassifier(encoder, len(task.labels))


def objective(task: TaggingTask) -> objectives.Objective:
    del task  # The same for all.
    return label_objectives.TOKENS
