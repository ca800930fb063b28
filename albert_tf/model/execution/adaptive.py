"""An encoder that stops as soon as its classifier is sure.

Sequences that are done leave the batch: the others go through the next layers
in fewer rows. The answers are those of a pass through all layers to which the
rule is applied afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf

from albert_tf.model.execution import serving
from albert_tf.model.execution.unpadding import Unpadding
from albert_tf.model.network import attention_bias, encoder, pooling

if TYPE_CHECKING:
    from albert_tf.model.heads.classification import AlbertClassifier

Tensors = dict[str, tf.Tensor]
_ROWS = ("kept", "input_mask", "segment_ids")


class Rule(NamedTuple):
    """When an answer is sure: either is enough, None is never.

    Attributes:
        patience: So many exits in a row gave the label of the exit before.
            Source: Zhou et al., arXiv 2006.04152 (PABEE), section 3.
        entropy: That of the probabilities is at most this share of ln(labels),
            the largest one. Source: Liu et al., arXiv 2004.02178 (FastBERT).
    """

    patience: int | None = None
    entropy: float | None = None

    def is_sure(self, logits: tf.Tensor, agreed: tf.Tensor) -> tf.Tensor:
        """Return bool [B] for float32 [B, labels] and int32 [B]."""
        sure = tf.zeros_like(agreed, tf.bool)
        if self.patience is not None:
            sure |= agreed >= self.patience
        if self.entropy is not None:
            chances = tf.nn.log_softmax(logits)
            entropy = -tf.reduce_sum(tf.exp(chances) * chances, -1)
            sure |= entropy <= self.entropy * tf.math.log(
                tf.cast(tf.shape(logits)[-1], tf.float32)
            )
        return sure


class _State(NamedTuple):
    """What is known before an exit: A of B sequences are not answered yet.

    Attributes:
        exit: int32 [], index of the exit.
        x: float [R, H], of the R tokens of these sequences.
        rows: Masks and segments, int32 [A, S], by name.
        number: int32 [A], index of each sequence in the batch.
        label: int32 [A], what the exit before said; -1 before the first.
        agreed: int32 [A], exits in a row that said what the one before said.
        logits: float32 [B, labels], where done.
        layers: int32 [B], where done.
    """

    exit: tf.Tensor
    x: tf.Tensor
    rows: Tensors
    number: tf.Tensor
    label: tf.Tensor
    agreed: tf.Tensor
    logits: tf.Tensor
    layers: tf.Tensor


class AdaptiveEncoder(serving.ServedEncoder):
    """A served encoder with its classifier that uses as few layers as it needs.

    It returns `logits` float32 [B, labels] and `layers` int32 [B].
    """

    def __init__(
        self,
        model: encoder.AlbertModel,
        classifier: AlbertClassifier,
        exits: Sequence[int],
        rule: Rule,
        *,
        freeze: bool = False,
    ):
        """Prepare an encoder for serving; see `ServedEncoder`.

        The classifier is asked at the depths `exits`, in order. The last one is
        the encoder's.
        """
        super().__init__(model, freeze=freeze)
        self._classifier = classifier
        self._exits = tuple(exits)
        self._rule = rule

    def __call__(
        self, inputs: Mapping[str, tf.Tensor], *, unpad: bool = False
    ) -> Tensors:
        return self._compute(inputs, unpad)

    def _run(self, inputs: Mapping[str, tf.Tensor]) -> Tensors:
        config = self._model.config
        unpadding = Unpadding(inputs["kept"], config.num_attention_heads)
        x = self._embed(inputs, unpadding)
        # Constants are in the body of the loop; others are read before it.
        weights = None
        if not self._has_constants:
            weights = self._read_all(self._layers, x.dtype)
        indices = tf.range(tf.shape(inputs["kept"])[0])
        zeros = tf.zeros_like(indices)
        labels = self._classifier.num_labels
        state = _State(
            tf.constant(0),
            x,
            {name: inputs[name] for name in _ROWS},
            indices,
            zeros - 1,
            zeros,
            tf.zeros([tf.size(indices), labels]),
            zeros,
        )
        shapes = tf.nest.map_structure(
            lambda value: tf.TensorShape([None, *value.shape[1:]]), state
        )._replace(exit=tf.TensorShape([]))
        *_, logits, layers = tf.while_loop(
            lambda *state: tf.size(_State(*state).number) > 0,
            lambda *state: self._next(_State(*state), weights),
            state,
            shape_invariants=shapes,
            parallel_iterations=1,
        )
        return {"logits": logits, "layers": layers}

    def _next(self, state: _State, weights: serving.Weights | None) -> _State:
        """Apply the layers up to the next exit; drop those that are sure."""
        model, config = self._model, self._model.config
        unpadding = Unpadding(state.rows["kept"], config.num_attention_heads)
        biases = attention_bias.make(config, state.rows, model.bucket_biases)
        shared = serving.Shared(biases, unpadding, weights)
        # The layers between the exit before and this one.
        ends = [n * config.inner_group_num for n in self._exits]
        pairs = zip([0, *ends], ends, strict=False)
        parts = [self._layers[begin:end] for begin, end in pairs]
        if len(set(self._layers)) == 1:
            times = tf.gather([len(part) for part in parts], state.exit)
            x = self._loop(state.x, shared, times)
        else:
            branches = [
                functools.partial(self._apply, part, state.x, shared)
                for part in parts
            ]
            x = tf.switch_case(state.exit, branches)
        pooled = pooling.pool(model.pooling, unpadding.pad(x), state.rows)
        assert model.pooler is not None, "Classifiers read it."
        pooled = tf.cast(model.pooler(pooled), tf.float32)
        # One head for all exits is computed once: TensorFlow and tf2onnx merge
        # equal operations.
        logits = tf.stack(
            [self._classifier.logits(pooled, depth) for depth in self._exits]
        )[state.exit]
        label = tf.argmax(logits, -1, tf.int32)
        agreed = tf.where(label == state.label, state.agreed + 1, 0)
        is_last = state.exit == len(self._exits) - 1
        continues = ~(self._rule.is_sure(logits, agreed) | is_last)
        continuing = tf.where(continues)[:, 0]
        # What is written for those that continue is replaced by later exits.
        indices = state.number[:, None]
        depth = tf.fill(tf.shape(label), tf.gather(self._exits, state.exit))
        rows, number, label, agreed = tf.nest.map_structure(
            lambda values: tf.gather(values, continuing),
            (state.rows, state.number, label, agreed),
        )
        return _State(
            state.exit + 1,
            unpadding.choose(x, continues),
            rows,
            number,
            label,
            agreed,
            tf.tensor_scatter_nd_update(state.logits, indices, logits),
            tf.tensor_scatter_nd_update(state.layers, indices, depth),
        )
