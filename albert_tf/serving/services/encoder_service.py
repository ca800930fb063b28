"""Signatures of encoders and pretrained models."""

import tensorflow as tf

from albert_tf.model.heads import pretraining
from albert_tf.serving.services import service
from albert_tf.serving.services.service import Signature, Tensors

# Pieces that fill_mask proposes for each mask.
TOP_PIECES = 5
# The inputs of the signature `mlm`.
MLM_IDS = (*service.IDS, "mlm_positions")


class EncoderService(service.Service):
    """An encoder without a head: embeddings of texts."""

    def answer(self, text: tf.Tensor) -> Tensors:
        """`mean_output` (over tokens), `truncated`, perhaps `pooled_output`.

        Returns:
            float32 [batch, hidden] twice, and bool [batch]: whether the text
            was too long and its end left out.
        """
        inputs, truncated = self.pack(self.read_pieces(text))
        outputs = self.encode(inputs, unpad=True)
        mask = tf.cast(inputs["input_mask"], tf.float32)[:, :, None]
        total = tf.reduce_sum(outputs.pop("sequence_output") * mask, 1)
        return {
            **outputs,
            "mean_output": total / tf.reduce_sum(mask, 1),
            "truncated": truncated,
        }


class PretrainedService(EncoderService):
    """A pretrained model: embeddings, masked words, sentence order."""

    model: pretraining.AlbertPretrainer
    reads_masks = True

    def signatures(self) -> dict[str, Signature]:
        signatures = {
            **super().signatures(),
            "mlm": service.with_ids(self.mlm, MLM_IDS),
            "fill_mask": service.with_texts(self.fill_mask, "text"),
        }
        if self.model.sentence_order:
            signatures["sentence_order"] = service.with_ids(self.sentence_order)
        return signatures

    def mlm(self, *ids: tf.Tensor) -> Tensors:
        """`tokens`, and `mlm_logits` [batch * n, vocab], not normalized.

        Source: original release, export_to_tfhub, signature `mlm`.
        """
        ids, positions = ids[:-1], ids[-1]
        outputs = self.tokens(*ids)
        positions = service.checked(
            positions,
            [tf.shape(ids[0])[0], tf.shape(positions)[-1]],
            "mlm_positions must be [batch, n].",
        )
        logits = self._piece_logits(outputs, positions)
        flat = tf.reshape(logits, [-1, len(self._pieces)])
        return {**outputs, "mlm_logits": flat}

    def _piece_logits(
        self, outputs: Tensors, positions: tf.Tensor
    ) -> tf.Tensor:
        """Return logits [batch, n, pieces], without rows of no piece."""
        logits = self.model.masked_lm_logits(
            outputs["sequence_output"], positions
        )
        return logits[..., : len(self._pieces)]

    def sentence_order(self, *ids: tf.Tensor) -> Tensors:
        """`tokens`, and `sop_logits` [batch, 2]; index 1 means swapped."""
        outputs = self.tokens(*ids)
        logits = self.model.sentence_order_logits(outputs["pooled_output"])
        return {**outputs, "sop_logits": logits}

    def fill_mask(self, text: tf.Tensor) -> Tensors:
        """Propose the likeliest pieces for each `[MASK]` in the text.

        Returns:
            `pieces` string and `probabilities` float32, both [batch, masks, 5],
            likeliest first; rows with fewer masks (or none) are filled with ""
            and 0. `truncated` bool [batch], see `answer`; masks that were cut
            off have no row.
        """
        inputs, truncated = self.pack(
            self.tokenizer.tokenize_with_masks(text, self.max_seq_length)
        )
        is_mask = tf.equal(inputs["input_ids"], self._mask_id)
        columns = tf.ragged.boolean_mask(
            tf.broadcast_to(tf.range(tf.shape(is_mask)[1]), tf.shape(is_mask)),
            is_mask,
        )
        outputs = self.encode(inputs, unpad=True)
        logits = self._piece_logits(outputs, columns.to_tensor())
        best = tf.math.top_k(tf.nn.softmax(logits), TOP_PIECES)
        real = tf.sequence_mask(columns.row_lengths())[:, :, None]
        pieces = tf.gather(tf.constant(self._pieces), best.indices)
        return {
            "pieces": tf.where(real, pieces, ""),
            "probabilities": tf.where(real, best.values, 0.0),
            "truncated": truncated,
        }
