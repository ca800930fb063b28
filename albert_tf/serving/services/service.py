"""The base of all services: signatures that take ids.

A service is a plain object whose methods are traced into signatures. The saved
model holds weights, tokenizer and TensorFlow functions, nothing of Keras, so it
runs with tensorflow and tensorflow-text alone.

Each byte that is not UTF-8 is read as U+FFFD. An empty text becomes `[CLS]
[SEP]`. An empty batch gives empty outputs.
"""

import functools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, ClassVar

import tensorflow as tf
import tf_keras as keras

from albert_tf.common import errors
from albert_tf.model.execution import adaptive, serving
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.text import packing_ops, tokenization, tokenization_ops

# The inputs of the signature `tokens`.
IDS = ("input_ids", "input_mask", "segment_ids")
# What is read of a served encoder; the last two are an adaptive one's.
_OUTPUTS = {
    "sequence_output": tf.float32,
    "pooled_output": tf.float32,
    "logits": tf.float32,
    "layers": tf.int32,
}

_MOST_AXES = 4  # More than any input has.

Tensors = dict[str, tf.Tensor]


def checked(
    values: tf.Tensor,
    shape: tf.Tensor | Sequence[int | tf.Tensor],
    message: str,
) -> tf.Tensor:
    """Return values of this shape; others are refused with the message.

    TensorFlow itself compares no shapes when a signature is called eagerly.
    """
    # Filled up to one length: shapes of unlike lengths would be broadcast.
    actual, expected = (
        tf.concat([axes, tf.fill([_MOST_AXES], -1)], 0)[:_MOST_AXES]
        for axes in (tf.shape(values), tf.convert_to_tensor(shape))
    )
    same = tf.debugging.assert_equal(actual, expected, message)
    with tf.control_dependencies([same]):
        return tf.identity(values)


def of_one_shape(inputs: Tensors) -> Tensors:
    """Return ids, masks and segments; all must be shaped as the first."""
    first = next(iter(inputs))
    shape = tf.shape(inputs[first])
    return {
        name: checked(value, shape, f"{name} must have the shape of {first}.")
        for name, value in inputs.items()
    }


Signature = Callable[..., Tensors]


def with_ids(
    function: Signature, names: Sequence[str] = IDS, *inner: int | None
) -> Signature:
    """Trace a function of int32 [batch, *inner, n], for each of the names."""
    shape = [None, *inner, None]
    return tf.function(
        function,
        input_signature=[tf.TensorSpec(shape, tf.int32, n) for n in names],
        autograph=False,
    )


def with_texts(function: Signature, *names: str) -> Signature:
    """Trace a function of string [batch], for each of the names.

    Texts of another rank, or fewer of one name than of another, are refused.
    """
    message = " and ".join(names) + " must be [batch]"
    message += ", as many of each." if len(names) > 1 else "."

    def of_checked(*texts: tf.Tensor) -> Tensors:
        count = [tf.size(texts[0])]
        return function(*(checked(text, count, message) for text in texts))

    return tf.function(
        of_checked,
        input_signature=[tf.TensorSpec([None], tf.string, n) for n in names],
        autograph=False,
    )


class Service:
    """A model with its tokenizer, and the signatures all models share."""

    # Inputs of the signatures `tokens` and `serving_default`.
    ids: ClassVar[tuple[str, ...]] = IDS
    texts: tuple[str, ...] = ("text",)
    read_whole: str | None = None  # The text that windows are laid over.
    app_output: str | None = None  # Of `tokens`: what apps get.
    # Answers texts, string [batch] each: `serving_default`.
    answer: Callable[..., Tensors]
    # Of exports for other runtimes: the outputs of `tokens` that answer.py
    # reads, and the module that decodes them.
    read_outputs: ClassVar[tuple[str, ...]] = (
        "sequence_output",
        "pooled_output",
    )
    portable: ModuleType | None = None
    kind: ClassVar[str] = ""  # For that module; without it the class's name.
    # What the tokenizer must be able to do; each makes the export larger.
    reads_masks: ClassVar[bool] = False
    reads_offsets: ClassVar[bool] = False

    def __init__(
        self,
        model: keras.Model,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
    ):
        self.model = model  # An encoder, or one with a head.
        self._serve: Callable[..., Any] = serving.ServedEncoder
        self._served = self._serve(self.encoder)
        self.tokenizer = tokenization_ops.make_graph_tokenizer(
            tokenizer,
            with_masks=self.reads_masks,
            with_offsets=self.reads_offsets,
        )
        self.max_seq_length = max_seq_length  # Longer text is cut.
        self._pieces = tokenizer.pieces
        self._cls_id, self._sep_id = tokenizer.cls_id, tokenizer.sep_id
        self._mask_id = tokenizer.mask_id

    @property
    def encoder(self) -> AlbertModel:
        return getattr(self.model, "encoder", self.model)

    @property
    def text_options(self) -> dict[str, Any]:
        """What, besides the vocabulary, one must know to use ids alone.

        To make them from texts, and answers from outputs.
        """
        return {}

    @property
    def can_adapt(self) -> bool:
        """Whether answers say how sure they are; see `adapt`."""
        return False

    def adapt(self, exits: Sequence[int], rule: adaptive.Rule) -> None:
        """Have a classifier stop where it is sure; see `AdaptiveEncoder`.

        To be called before `freeze`, and before the signatures are used. These
        give `layers` then, int32 [batch], and no outputs of the encoder.
        """
        if not self.can_adapt:
            raise errors.UserError(
                "`adaptive` is for models that give a text one of several "
                "labels, without `windows`: others do not say how sure they "
                "are. Leave it out."
            )
        self._serve = functools.partial(
            adaptive.AdaptiveEncoder,
            classifier=self.model,
            exits=exits,
            rule=rule,
        )
        self._served = self._serve(self.encoder)

    def freeze(self) -> None:
        """Convert the weights to the encoder's precision for good.

        See `ServedEncoder`; to be called before the signatures are used.
        """
        self._served = self._serve(self.encoder, freeze=True)

    def signatures(self) -> dict[str, Signature]:
        return {
            "tokens": with_ids(self.tokens, self.ids),
            "serving_default": with_texts(self.answer, *self.texts),
        }

    @functools.cached_property
    def functions(self) -> dict[str, Any]:
        """The signatures; each is traced once, however often it is used."""
        return dict(self.signatures())

    def samples(self) -> dict[str, Tensors]:
        return {
            name: {s.name: self._sample(s) for s in function.input_signature}
            for name, function in self.functions.items()
        }

    def _sample(self, spec: tf.TensorSpec) -> tf.Tensor:
        shape = [size or 1 for size in spec.shape]
        if spec.dtype == tf.string:
            return tf.fill(shape, f"A {tokenization.MASK} text.")
        rows = {"input_ids": [self._cls_id, self._sep_id], "input_mask": [1, 1]}
        row = tf.constant(rows.get(spec.name, [0, 0]))
        return tf.broadcast_to(row, [*shape[:-1], 2])

    def tokens(self, *ids: tf.Tensor) -> Tensors:
        """`sequence_output` and `pooled_output`, given int32 [batch, seq].

        Both are float32, [batch, seq, hidden] and [batch, hidden]. An encoder
        without a pooler has only the first.

        Source: original release, export_to_tfhub, signature `tokens`.
        """
        return self.encode(dict(zip(IDS, ids, strict=True)))

    def encode(self, inputs: Tensors, *, unpad: bool = False) -> Tensors:
        """Return what `tokens` does; refuse wrong shapes by name.

        Args:
            unpad: Whether nothing is computed at padding; what is
                returned there is 0. For texts, whose padding nobody asked for.
        """
        inputs = of_one_shape(inputs)
        ids = self._checked(inputs["input_ids"])
        outputs = self._served({**inputs, "input_ids": ids}, unpad=unpad)
        return {
            name: tf.cast(outputs[name], dtype)
            for name, dtype in _OUTPUTS.items()
            if name in outputs
        }

    def _checked(self, ids: tf.Tensor) -> tf.Tensor:
        longest = self.encoder.config.max_position_embeddings
        length = tf.shape(ids)[-1]
        checks = [
            tf.debugging.assert_less_equal(
                length,
                longest,
                f"input_ids are longer than the {longest} positions of the "
                "model.",
            ),
            tf.debugging.assert_positive(length, "input_ids have no position."),
        ]
        # Without the dependency the encoder may fail first, less clearly.
        with tf.control_dependencies(checks):
            return tf.identity(ids)

    def read_pieces(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of texts, as many as a sequence may have."""
        return self.tokenizer.tokenize(text, self.max_seq_length)

    def pack(self, *segments: tf.RaggedTensor) -> tuple[Tensors, tf.Tensor]:
        """Return ids, mask and segments, and where text was cut.

        Args:
            segments: One or two int32 [batch, (pieces)].

        Returns:
            See `packing_ops.pack_inputs`; and bool [batch].
        """
        inputs = packing_ops.pack_inputs(
            segments, self.max_seq_length, self._cls_id, self._sep_id
        )
        needed = tf.fill([segments[0].nrows()], tf.constant(2, tf.int64))
        for segment in segments:
            needed += segment.row_lengths()
        for second in segments[1:]:  # It has a marker of its own, if any.
            needed += tf.cast(second.row_lengths() > 0, tf.int64)
        return inputs, needed > self.max_seq_length


def id_functions(served: Service) -> dict[str, Any]:
    functions = served.functions
    return {
        name: function
        for name, function in functions.items()
        if all(spec.dtype == tf.int32 for spec in function.input_signature)
    }
