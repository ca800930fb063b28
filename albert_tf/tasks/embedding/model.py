"""A vector of length 1 for each text.

Source: Reimers and Gurevych, arXiv 1908.10084, section 3.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.model.checkpoints import sentence_modules
from albert_tf.model.heads import head, model_with_head, pretraining
from albert_tf.model.losses import embedding_objectives, objectives
from albert_tf.model.network import layers, pooling
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding import data
from albert_tf.tasks.embedding.task import EmbeddingTask

SCOPE = sentence_modules.SCOPE


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertEmbedder(model_with_head.ModelWithHead):
    """An encoder whose outputs for all tokens become one vector.

    The encoder's pooler has no part in it and keeps its weights.
    """

    reads_pooler = False

    def __init__(
        self,
        encoder: AlbertModel,
        text_pooling: str = "mean",
        projection_size: int = 0,
    ):
        """Add what makes vectors to an encoder.

        Args:
            text_pooling: One of `config.TEXT_POOLINGS`.
            projection_size: Width of the vectors, by a new linear layer. 0:
                that of the encoder, without a layer.
        """
        super().__init__(encoder, "albert_embedder")
        self.text_pooling = text_pooling
        self.projection_size = projection_size
        self.projection = None
        # The masked LM head, if it is trained, too. No class attribute: Keras
        # would not track it.
        self.words: pretraining.AlbertPretrainer | None = None
        if projection_size:
            config = encoder.config
            self.projection = layers.Dense(
                SCOPE, config.hidden_size, projection_size, config
            )

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Return `embedding` for each text; see `with_exits` for training.

        Inputs are those of the encoder, int32 [B, S], or [B, texts, S]. The
        vectors, float32 [B, width], or [B, texts, width], have the length 1.
        """
        ids = tf.convert_to_tensor(inputs["input_ids"])
        shape = tf.shape(ids)
        rows = {
            name: tf.reshape(value, [-1, shape[-1]])
            for name, value in inputs.items()
        }
        outputs = self.encode(rows, training, dropout_seed)
        mask = rows.get("input_mask", tf.ones_like(rows["input_ids"]))

        def answer(states: dict[str, Any], depth: int) -> dict[str, Any]:
            vectors = self.vectors(states["sequence_output"], mask, training)
            width = tf.shape(vectors)[-1:]
            vectors = tf.reshape(vectors, tf.concat([shape[:-1], width], 0))
            return {"embedding": vectors}

        return self.with_exits(answer, outputs, rows, training)

    def vectors(
        self,
        sequence_output: tf.Tensor,
        input_mask: tf.Tensor,
        training: bool = False,
    ) -> tf.Tensor:
        """Return float32 [B, width] for outputs [B, S, H], mask int32 [B, S].

        A sequence that is all padding has some vector.
        """
        x = tf.cast(sequence_output, tf.float32)
        inputs = {"input_mask": input_mask}
        x = self.project(pooling.pool(self.text_pooling, x, inputs), training)
        return pooling.normalize(x)

    def project(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Return float32 [..., width] of what has the encoder's width."""
        x = tf.cast(x, tf.float32)
        return x if self.projection is None else self.projection(x, training)


HEADS = (
    head.Head(
        SCOPE,
        f"{SCOPE}/bias",
        lambda encoder, width: AlbertEmbedder(encoder, projection_size=width),
        reads_pooler=False,
    ),
)


def make(task: EmbeddingTask, encoder: AlbertModel) -> keras.Model:
    facts = task.facts
    model = AlbertEmbedder(encoder, facts.text_pooling, facts.projection_size)
    if task.num_predictions:
        model.words = pretraining.AlbertPretrainer(
            encoder, sentence_order=False
        )
    return model


def objective(task: EmbeddingTask) -> objectives.Objective:
    comparison = embedding_objectives.COSINE
    if task.options.train_examples != data.SCORED:
        comparison = embedding_objectives.ranking(task.options.temperature)
    return embedding_objectives.over_prefixes(comparison, task.prefixes)
