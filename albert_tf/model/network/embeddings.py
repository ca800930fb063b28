"""Embeddings of words, segments and positions."""

from collections.abc import Mapping

import tensorflow as tf
import tf_keras as keras

from albert_tf.model import seeds
from albert_tf.model.config import AlbertConfig
from albert_tf.model.network import layers


class Embeddings(keras.layers.Layer):
    """Sum of word, segment and position embeddings, norm, dropout: [B, S, E].

    With `config.project_words_first` words are projected before the sum, which
    is [B, S, H] then.

    Source: ALBERT §3.1, factorized embedding; in the original,
    modeling.embedding_lookup and modeling.embedding_postprocessor.
    """

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__(name="embeddings", dtype="float32")
        self._config = config
        size, width = config.embedding_size, config.embedding_width
        self.word_embeddings = self._table(
            f"{scope}/word_embeddings", config.vocab_size, size
        )
        self.word_projection = None
        if config.project_words_first:
            # Brightmart's name of the projection.
            self.word_projection = self._table(
                f"{scope}/word_embeddings_2", size, width
            )
        self.token_type_embeddings = self._table(
            f"{scope}/token_type_embeddings", config.type_vocab_size, width
        )
        self.position_embeddings = self._table(
            f"{scope}/position_embeddings",
            config.max_position_embeddings,
            width,
        )
        self.layer_norm = layers.LayerNorm(
            f"{scope}/LayerNorm", width, config.layer_norm_eps
        )

    def _table(self, name: str, rows: int, columns: int) -> tf.Variable:
        return self.add_weight(
            name=name,
            shape=[rows, columns],
            initializer=layers.truncated_normal(self._config.initializer_range),
        )

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        dropout: seeds.DropoutSeeds = seeds.NO_DROPOUT,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return word embeddings and the normalized sum, [B, S, E or H]."""
        # Looked up in a tensor: a variable in which rows are looked up directly
        # is copied by TensorFlow whenever the optimizer reads or writes it.
        table = tf.convert_to_tensor(self.word_embeddings)
        # A table for serving may be of bfloat16.
        words = tf.cast(tf.gather(table, inputs["input_ids"]), tf.float32)
        if self.word_projection is not None:
            words = tf.einsum("BSE,EH->BSH", words, self.word_projection)
        # Rows, not a product with one-hot vectors: how the gradient is clipped
        # depends on it, see ARCHITECTURE.md.
        segments = tf.gather(self.token_type_embeddings, inputs["segment_ids"])
        x = words + segments + self._positions(inputs)
        x = self.layer_norm(x, training)
        return words, dropout(x, self._config.hidden_dropout_prob)

    def _positions(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return float32 [S, E], or [B, S, E] for given `position_ids`."""
        positions = self.position_embeddings[: tf.shape(inputs["input_ids"])[1]]
        if "position_ids" in inputs:
            # Gathered from the slice, so that the table's gradient is dense, as
            # it is without `position_ids`.
            positions = tf.gather(positions, inputs["position_ids"])
        return positions

    def word_logits(self, x: tf.Tensor) -> tf.Tensor:
        """Return the products of x with the embeddings of all words, [R, V].

        x is float32 [R, E], or [R, H] with `config.project_words_first`.
        """
        if self.word_projection is not None:
            x = tf.matmul(x, self.word_projection, transpose_b=True)
        table = tf.cast(self.word_embeddings, tf.float32)
        return tf.matmul(x, table, transpose_b=True)
