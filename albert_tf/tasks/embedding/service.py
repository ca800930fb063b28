"""Signatures of models that give a vector for each text."""

import tensorflow as tf

from albert_tf.serving.services import service
from albert_tf.serving.services.service import Signature, Tensors
from albert_tf.tasks.embedding import model


class EmbeddingService(service.Service):
    """Vectors of length 1: their dot product is the cosine."""

    model: model.AlbertEmbedder
    read_outputs = ("embedding",)
    app_output = "embedding"

    def signatures(self) -> dict[str, Signature]:
        return {
            **super().signatures(),
            "compare": service.with_texts(self.compare, "text", "text_pair"),
        }

    def tokens(self, *ids: tf.Tensor) -> Tensors:
        """`embedding` float32 [batch, width]; `sequence_output` as `Service`.

        There is no `pooled_output`: nothing here trains a pooler.
        """
        inputs = dict(zip(service.IDS, ids, strict=True))
        return self._vectors(inputs, self.encode(inputs))

    def answer(self, text: tf.Tensor) -> Tensors:
        """Give each text, string [batch], its vector.

        Returns:
            `embedding` float32 [batch, width]; `truncated` bool [batch]:
            whether the text was too long and its end left out.
        """
        inputs, truncated = self.pack(self.read_pieces(text))
        outputs = self._vectors(inputs, self.encode(inputs, unpad=True))
        return {"embedding": outputs["embedding"], "truncated": truncated}

    def compare(self, text: tf.Tensor, text_pair: tf.Tensor) -> Tensors:
        """Compare each text, string [batch], with another one.

        Returns:
            `cosine` float32 [batch]; `truncated` bool [batch]: whether one of
            both was too long.
        """
        outputs = self.answer(tf.concat([text, text_pair], 0))
        one, other = tf.split(outputs["embedding"], 2)
        cut = tf.split(outputs["truncated"], 2)
        return {
            "cosine": tf.reduce_sum(one * other, -1),
            "truncated": tf.logical_or(*cut),
        }

    def _vectors(self, inputs: Tensors, outputs: Tensors) -> Tensors:
        sequence = outputs["sequence_output"]
        vectors = self.model.vectors(sequence, inputs["input_mask"])
        return {"sequence_output": sequence, "embedding": vectors}


SERVICES = {
    model.AlbertEmbedder: lambda task, made: EmbeddingService(
        made, task.tokenizer, task.max_seq_length
    )
}
