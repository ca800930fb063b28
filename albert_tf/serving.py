"""What a SavedModel offers: signatures with ids in, and with text in.

A service is a plain object whose methods are traced into signatures. The saved
model holds weights, tokenizer and TensorFlow functions, nothing of Keras, so it
runs with tensorflow and tensorflow-text alone.
"""

import os
import shutil
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf import modeling, tokenization, tokenization_ops
from albert_tf.heads import classification, pretraining

# Pieces that fill_mask proposes for each mask.
TOP_PIECES = 5

_IDS = ("input_ids", "input_mask", "segment_ids")


def _signature(
    function: Callable[..., Any], dtype: tf.DType, names: tuple[str, ...]
) -> Callable[..., Any]:
    """Trace `function`: int32 [batch, n] or string [batch] for each name."""
    shape = [None] if dtype == tf.string else [None, None]
    return tf.function(
        function,
        input_signature=[tf.TensorSpec(shape, dtype, n) for n in names],
    )


class Service:
    """A model with its tokenizer, and the signatures all models share."""

    def __init__(
        self,
        model: keras.Model,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
    ):
        """Keep what the signatures need.

        Args:
            model: An encoder with heads; has the attribute `encoder`.
            tokenizer: The vocabulary it was trained with.
            max_seq_length: Longer text is cut to so many tokens.
        """
        self.model = model
        self.tokenizer = tokenization_ops.make_graph_tokenizer(tokenizer)
        self._pieces = tokenizer.pieces
        self._special = tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id
        self._max_seq_length = max_seq_length

    def signatures(self) -> dict[str, Callable[..., Any]]:
        """Return the signatures by name."""
        return {"tokens": _signature(self.tokens, tf.int32, _IDS)}

    def tokens(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """`sequence_output` [batch, seq, hidden] and `pooled_output`.

        Source: original release, export_to_tfhub, signature `tokens`.
        """
        values = input_ids, input_mask, segment_ids
        outputs = self._encode(dict(zip(_IDS, values, strict=True)))
        return {k: outputs[k] for k in ("sequence_output", "pooled_output")}

    def _encode(self, inputs: dict[str, tf.Tensor]) -> dict[str, Any]:
        encoder: modeling.AlbertModel = self.model.encoder
        longest = encoder.config.max_position_embeddings
        check = tf.debugging.assert_less_equal(
            tf.shape(inputs["input_ids"])[1],
            longest,
            f"input_ids are longer than the {longest} positions of the model.",
        )
        # Without the dependency the encoder may fail first, and less clearly.
        with tf.control_dependencies([check]):
            ids = tf.identity(inputs["input_ids"])
        outputs: dict[str, Any] = encoder({**inputs, "input_ids": ids})
        return outputs

    def _pack(self, *segments: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        cls_id, sep_id, _ = self._special
        return tokenization_ops.pack_inputs(
            segments, self._max_seq_length, cls_id, sep_id
        )


class PretrainedService(Service):
    """A pretrained model: embeddings, masked words, sentence order."""

    model: pretraining.AlbertPretrainer

    def signatures(self) -> dict[str, Callable[..., Any]]:
        """Return the signatures by name."""
        with_positions = (*_IDS, "mlm_positions")
        return {
            **super().signatures(),
            "mlm": _signature(self.mlm, tf.int32, with_positions),
            "sentence_order": _signature(self.sentence_order, tf.int32, _IDS),
            "serving_default": _signature(self.embed, tf.string, ("text",)),
            "fill_mask": _signature(self.fill_mask, tf.string, ("text",)),
        }

    def mlm(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        mlm_positions: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """`tokens`, and `mlm_logits` [batch * n, vocab], not normalized.

        Source: original release, export_to_tfhub, signature `mlm`.
        """
        outputs = self.tokens(input_ids, input_mask, segment_ids)
        logits = self.model.masked_lm_logits(
            outputs["sequence_output"], mlm_positions
        )
        flat = tf.reshape(logits, [-1, len(self._pieces)])
        return {**outputs, "mlm_logits": flat}

    def sentence_order(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """`tokens`, and `sop_logits` [batch, 2]; index 1 means swapped."""
        outputs = self.tokens(input_ids, input_mask, segment_ids)
        logits = self.model.sentence_order_logits(outputs["pooled_output"])
        return {**outputs, "sop_logits": logits}

    def embed(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """`pooled_output` and `mean_output` (over tokens), [batch, hidden]."""
        inputs = self._pack(self.tokenizer.tokenize(text))
        outputs = self._encode(inputs)
        mask = tf.cast(inputs["input_mask"], tf.float32)[:, :, None]
        total = tf.reduce_sum(outputs["sequence_output"] * mask, 1)
        return {
            "pooled_output": outputs["pooled_output"],
            "mean_output": total / tf.reduce_sum(mask, 1),
        }

    def fill_mask(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Propose the likeliest pieces for each `[MASK]` in the text.

        Returns:
            `pieces` string and `probabilities` float32, both [batch, masks, 5],
            likeliest first. Rows with fewer masks are filled with "" and 0.
        """
        inputs = self._pack(self.tokenizer.tokenize_with_masks(text))
        is_mask = tf.equal(inputs["input_ids"], self._special[2])
        columns = tf.ragged.boolean_mask(
            tf.broadcast_to(tf.range(tf.shape(is_mask)[1]), tf.shape(is_mask)),
            is_mask,
        )
        logits = self.model.masked_lm_logits(
            self._encode(inputs)["sequence_output"], columns.to_tensor()
        )
        best = tf.math.top_k(tf.nn.softmax(logits), TOP_PIECES)
        real = tf.sequence_mask(columns.row_lengths())[:, :, None]
        pieces = tf.gather(tf.constant(self._pieces), best.indices)
        return {
            "pieces": tf.where(real, pieces, ""),
            "probabilities": tf.where(real, best.values, 0.0),
        }


class ClassifierService(Service):
    """A finetuned classifier of one text or of pairs of texts."""

    model: classification.AlbertClassifier

    def __init__(
        self,
        model: classification.AlbertClassifier,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        *,
        labels: tuple[str, ...],
        pairs: bool,
    ):
        """Keep what the signatures need.

        Args:
            model: See `Service`.
            tokenizer: See `Service`.
            max_seq_length: See `Service`.
            labels: Label strings in the order of the logits.
            pairs: Whether `serving_default` takes `text` and `text_pair`.
        """
        super().__init__(model, tokenizer, max_seq_length)
        self._labels = labels
        self._texts = ("text", "text_pair") if pairs else ("text",)

    def signatures(self) -> dict[str, Callable[..., Any]]:
        """Return the signatures by name."""
        return {
            "tokens": _signature(self.tokens, tf.int32, _IDS),
            "serving_default": _signature(
                self.classify, tf.string, self._texts
            ),
        }

    def tokens(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """What `Service.tokens` gives, `logits` and `probabilities`."""
        outputs = super().tokens(input_ids, input_mask, segment_ids)
        logits = self.model.logits(outputs["pooled_output"])
        probabilities = tf.nn.softmax(logits)
        return {**outputs, "logits": logits, "probabilities": probabilities}

    def classify(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """`label` string [batch] and `probabilities` [batch, labels]."""
        inputs = self._pack(*(self.tokenizer.tokenize(text) for text in texts))
        probabilities = self.tokens(**inputs)["probabilities"]
        best = tf.argmax(probabilities, -1)
        return {
            "label": tf.gather(tf.constant(self._labels), best),
            "probabilities": probabilities,
        }


def save(service: Service, path: str) -> None:
    """Write a SavedModel that appears under `path` only when it is complete.

    Args:
        service: What to save.
        path: Folder to write; an existing one is replaced.
    """
    root = tf.Module()
    # The variables, not the Keras model, which would bring its own functions.
    root.weights = list(service.model.variables)
    root.tokenizer = service.tokenizer
    partial = path.rstrip("/") + ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    tf.saved_model.save(root, partial, signatures=service.signatures())
    old = path.rstrip("/") + ".old"
    if os.path.exists(path):
        os.replace(path, old)
    os.replace(partial, path)
    shutil.rmtree(old, ignore_errors=True)
