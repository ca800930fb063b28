"""Signatures of models that give a vector for each text."""

from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.common import packed_vectors, prompts
from albert_tf.model.network import pooling
from albert_tf.serving.services import service
from albert_tf.serving.services.service import Signature, Tensors
from albert_tf.tasks.embedding import model
from albert_tf.text import tokenization


class EmbeddingService(service.Service):
    """Vectors of length 1: their dot product is the cosine.

    Others are those of `packed_vectors.VectorOptions.pack`. Texts begin with
    the prompt that is chosen in `given`, if one is.
    """

    model: model.AlbertEmbedder
    read_outputs = ("embedding",)

    def __init__(
        self,
        made: keras.Model,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        given_out: packed_vectors.VectorOptions = packed_vectors.WHOLE,
        given: prompts.PromptOptions = prompts.NONE,
    ):
        super().__init__(made, tokenizer, max_seq_length)
        width = self.model.projection_size or self.encoder.config.hidden_size
        self._prompts = given
        self._is_cut = bool(given_out.dimensions)
        self._size = given_out.dimensions or width
        self._precision = given_out.vector_precision or packed_vectors.FLOAT
        if self._precision == packed_vectors.FLOAT:  # Others no app reads.
            self.app_output = "embedding"

    @property
    def text_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "dimensions": self._size,
            "vector_precision": self._precision,
        }
        if self._precision == packed_vectors.INT8:
            options["vector_scale"] = packed_vectors.scale(self._size)
        return options | self._prompts.to_dict()

    def signatures(self) -> dict[str, Signature]:
        signatures = {
            **super().signatures(),
            "compare": service.with_texts(self.compare, "text", "text_pair"),
        }
        if self._prompts.texts:
            signatures["prompted"] = service.with_texts(
                self.prompted, "text", "prompt"
            )
        return signatures

    def _sample(self, spec: tf.TensorSpec) -> tf.Tensor:
        sample = super()._sample(spec)
        return tf.zeros_like(sample) if spec.name == "prompt" else sample

    def tokens(self, *ids: tf.Tensor) -> Tensors:
        """`embedding` [batch, width]; `sequence_output` as in `Service`.

        There is no `pooled_output`: nothing here trains a pooler.
        """
        inputs = dict(zip(service.IDS, ids, strict=True))
        outputs = self.encode(inputs)
        numbers = self._numbers(inputs, outputs)
        return {
            "sequence_output": outputs["sequence_output"],
            "embedding": self._pack(numbers),
        }

    def answer(self, text: tf.Tensor) -> Tensors:
        """Give each text, string [batch], its vector.

        Returns:
            `embedding` [batch, width]; `truncated` bool [batch]: whether the
            text was too long and its end left out.
        """
        return self._answer(self._by_default(text))

    def prompted(self, text: tf.Tensor, prompt: tf.Tensor) -> Tensors:
        """Do so with the prompt of each text: its name, or an empty one."""
        names, texts = zip(("", ""), *self._prompts.texts.items(), strict=True)
        is_named = prompt[:, None] == tf.constant(names)
        known = tf.debugging.assert_equal(
            tf.reduce_any(is_named, 1),
            True,
            f"prompt must be {', '.join(names[1:])}, or empty.",
        )
        with tf.control_dependencies([known]):
            places = tf.argmax(is_named, 1)
        return self._answer(tf.gather(tf.constant(texts), places) + text)

    def compare(self, text: tf.Tensor, text_pair: tf.Tensor) -> Tensors:
        """Compare each text, string [batch], with another one.

        Returns:
            `cosine` float32 [batch], of vectors as they are given out;
            `truncated` bool [batch]: whether one of both was too long.
        """
        texts = self._by_default(tf.concat([text, text_pair], 0))
        numbers, truncated = self._numbers_of(texts)
        one, other = tf.split(pooling.normalize(numbers), 2)
        cut = tf.split(truncated, 2)
        return {
            "cosine": tf.reduce_sum(one * other, -1),
            "truncated": tf.logical_or(*cut),
        }

    def _by_default(self, text: tf.Tensor) -> tf.Tensor:
        prompt = self._prompts.before
        return prompt + text if prompt else text

    def _answer(self, text: tf.Tensor) -> Tensors:
        numbers, truncated = self._numbers_of(text)
        return {"embedding": self._pack(numbers), "truncated": truncated}

    def _numbers_of(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        inputs, truncated = self.pack(self.read_pieces(text))
        outputs = self.encode(inputs, unpad=True)
        return self._numbers(inputs, outputs), truncated

    def _numbers(self, inputs: Tensors, outputs: Tensors) -> tf.Tensor:
        """Return float32 [batch, d]: whole numbers, or -1 and 1 for bits."""
        x = self.model.vectors(outputs["sequence_output"], inputs["input_mask"])
        if self._is_cut:
            x = pooling.normalize(x[:, : self._size])
        if self._precision == packed_vectors.BINARY:
            return tf.cast(x > 0, tf.float32) * 2 - 1
        if self._precision == packed_vectors.INT8:
            most = packed_vectors.MOST
            levels = tf.round(x * packed_vectors.scale(self._size))
            return tf.clip_by_value(levels, -most, most)
        return x

    def _pack(self, numbers: tf.Tensor) -> tf.Tensor:
        if self._precision == packed_vectors.BINARY:
            bits = tf.reshape(tf.nn.relu(numbers), [-1, self._size // 8, 8])
            places = tf.constant([128.0, 64, 32, 16, 8, 4, 2, 1])
            total = tf.reduce_sum(bits * places, -1)
            return tf.cast(tf.cast(total, tf.int32), tf.uint8)
        if self._precision == packed_vectors.INT8:
            return tf.cast(numbers, tf.int8)
        return numbers


SERVICES = {
    model.AlbertEmbedder: lambda task, made: EmbeddingService(
        made, task.tokenizer, task.max_seq_length, task.given_out, task.prompts
    )
}
