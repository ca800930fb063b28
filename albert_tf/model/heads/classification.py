"""One linear layer on the pooled output: classes, a number, or a choice.

Source: ALBERT appendix A.4; in the original, classifier_utils.create_model and
race_utils.create_model.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.model import base, layers, modeling, objectives
from albert_tf.model.heads import head

# Fixed in the original, whatever the config's `initializer_range` is.
INITIALIZER_RANGE = 0.02
# "Classifier DR" in the paper's Table 14.
DROPOUT = 0.1
# Separates the seeds of the parts of a question, by the first choice of each.
_CHOICE_STREAM = 2**30 + 1
# The logit of a padding choice.
PADDING_LOGIT = -1e30


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertClassifier(head.Head):
    """An encoder with one linear layer on its pooled output.

    With one label it is a regression: the logit is the predicted number, on the
    scale of the labels, neither squashed nor clipped.
    """

    def __init__(
        self,
        encoder: modeling.AlbertModel,
        num_labels: int,
        dropout: float = DROPOUT,
    ):
        """Add a new classifier to an encoder.

        Args:
            encoder: A finished encoder; its weights are trained along.
            num_labels: Number of classes; 1 for a regression.
            dropout: Share of the pooled output that is dropped in training.
        """
        super().__init__(encoder, "albert_classifier", dropout)
        self.num_labels = num_labels
        self.output_weights = self.add_weight(
            name="output_weights",
            shape=[num_labels, encoder.config.hidden_size],
            initializer=layers.truncated_normal(INITIALIZER_RANGE),
        )
        self.output_bias = self.add_weight(
            name="output_bias", shape=[num_labels], initializer="zeros"
        )

    def output_positions(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return that of [CLS], int32 [B, 1]."""
        return tf.zeros_like(tf.convert_to_tensor(inputs["input_ids"])[:, :1])

    def call_head(
        self,
        outputs: Mapping[str, tf.Tensor],
        inputs: Mapping[str, tf.Tensor],
        dropout: layers.Dropout,
    ) -> dict[str, tf.Tensor]:
        """Return `logits` float [B, num_labels]."""
        pooled = dropout(outputs["pooled_output"], self.dropout)
        return {"logits": self.logits(pooled)}

    def logits(self, pooled_output: tf.Tensor) -> tf.Tensor:
        """Return float [B, num_labels] for the pooled output [B, H]."""
        logits = tf.matmul(pooled_output, self.output_weights, transpose_b=True)
        return logits + self.output_bias


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertMultipleChoice(base.AlbertBase):
    """Scores every choice of a question on its own, as RACE needs it.

    Each choice is encoded with the passage and the question; one linear layer
    gives its score.
    """

    def __init__(
        self,
        encoder: modeling.AlbertModel,
        dropout: float = DROPOUT,
        *,
        choices_at_once: int | None = None,
    ):
        """Add a new scorer to an encoder; see `AlbertClassifier`.

        Args:
            encoder: A finished encoder; its weights are trained along.
            dropout: Share of the pooled output that is dropped in training.
            choices_at_once: Choices of each question that are encoded together;
                None for all. Fewer need less memory and more time: in training
                each part is computed a second time for its gradient. The scores
                are the same.
        """
        super().__init__("albert_multiple_choice")
        # Its variables have no scope, as in the original.
        self.scorer = AlbertClassifier(encoder, 1, dropout)
        self.dropout = dropout
        self.choices_at_once = choices_at_once

    @property
    def encoder(self) -> modeling.AlbertModel:
        """The encoder below the head."""
        return self.scorer.encoder

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Score the choices of a batch of questions.

        Args:
            inputs: `input_ids`, and optionally `input_mask` and `segment_ids`,
                int32 [B, choices, S]. A choice whose mask is all 0 is padding;
                it is never chosen.
            training: Whether to apply dropout.
            dropout_seed: See `modeling.AlbertModel`.

        Returns:
            `logits` float32 [B, choices].

        Raises:
            ValueError: `choices_at_once` does not divide the choices.
        """
        choices = inputs["input_ids"].shape[1]
        size = self.choices_at_once or choices
        if choices % size:
            raise ValueError(f"{size} does not divide {choices} choices.")
        if size == choices:
            logits = self._score(inputs, training, dropout_seed)
        else:
            logits = self._score_in_parts(inputs, size, training, dropout_seed)
        return {"logits": _mask_padding(logits, inputs.get("input_mask"))}

    def logits(
        self, pooled_output: tf.Tensor, input_mask: tf.Tensor
    ) -> tf.Tensor:
        """Return `logits` for the encoder's output of each choice.

        Args:
            pooled_output: float [B, choices, H].
            input_mask: int32 [B, choices, S], see `call`.
        """
        rows = tf.reshape(pooled_output, [-1, pooled_output.shape[-1]])
        logits = tf.reshape(self.scorer.logits(rows), tf.shape(input_mask)[:2])
        return _mask_padding(logits, input_mask)

    def _score_in_parts(
        self,
        inputs: Mapping[str, tf.Tensor],
        size: int,
        training: bool,
        dropout_seed: tf.Tensor | None,
    ) -> tf.Tensor:
        """Score `size` choices of each question at a time.

        For the gradient each part is computed again, so that only one part's
        activations exist at any time.
        """
        starts = range(0, inputs["input_ids"].shape[1], size)
        if training and dropout_seed is None:
            dropout_seed = layers.derive_seed(None, _CHOICE_STREAM)

        def score_part(start: int, after: Sequence[tf.Tensor]) -> tf.Tensor:
            seed = dropout_seed
            if seed is not None:
                seed = layers.derive_seed(seed, _CHOICE_STREAM + start)
            # One part after the other, so that their memory does not add up.
            with tf.control_dependencies(after):
                part = {
                    name: tf.identity(value[:, start : start + size])
                    for name, value in inputs.items()
                }
            return self._score(part, training, seed)

        # tf.recompute_grad would sum up the gradients of a table's rows, which
        # count one by one in the norm of the gradient.
        @tf.custom_gradient
        def score(_: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
            def gradient(
                upstream: tf.Tensor, variables: Sequence[tf.Variable]
            ) -> tuple[None, list[Any]]:
                return None, _gradients_in_parts(
                    score_part, starts, upstream, variables
                )

            parts: list[tf.Tensor] = []
            for start in starts:
                parts.append(score_part(start, parts[-1:]))
            return tf.concat(parts, 1), gradient

        return score(inputs["input_ids"])

    def _score(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool,
        dropout_seed: tf.Tensor | None,
    ) -> tf.Tensor:
        """Return float [B, choices] for inputs [B, choices, S]."""
        shape = tf.shape(inputs["input_ids"])
        rows = {
            name: tf.reshape(value, [-1, shape[2]])
            for name, value in inputs.items()
        }
        scores = self.scorer(rows, training=training, dropout_seed=dropout_seed)
        return tf.reshape(scores["logits"], shape[:2])


def _mask_padding(logits: tf.Tensor, input_mask: tf.Tensor | None) -> tf.Tensor:
    """Return float32 logits, those of padding choices at PADDING_LOGIT."""
    logits = tf.cast(logits, tf.float32)
    if input_mask is None:
        return logits
    real = tf.reduce_any(input_mask > 0, -1)
    return tf.where(real, logits, PADDING_LOGIT)


def _gradients_in_parts(
    score_part: Callable[[int, Sequence[tf.Tensor]], tf.Tensor],
    starts: range,
    upstream: tf.Tensor,
    variables: Sequence[tf.Variable],
) -> list[Any]:
    """Return the sum of all parts' gradients, computed one after the other."""
    sums: list[Any] = []
    after = [upstream]
    for start in starts:
        with tf.GradientTape() as tape:
            scores = score_part(start, after)
        found = tape.gradient(
            scores, variables, upstream[:, start : start + starts.step]
        )
        sums = list(map(_add, sums, found)) if sums else found
        after = tf.nest.flatten(sums, expand_composites=True)
    return sums


def _add(one: Any, other: Any) -> Any:
    """Add two gradients; sparse ones are concatenated and stay sparse."""
    if not isinstance(one, tf.IndexedSlices):
        return one + other
    return tf.IndexedSlices(
        tf.concat([one.values, other.values], 0),
        tf.concat([one.indices, other.indices], 0),
        one.dense_shape,
    )


def _sample_weights(batch: objectives.Batch) -> objectives.Tensors:
    real = objectives.real_examples(batch)
    return {"classification_loss": real, "accuracy": real}


def _sample_values(
    model: keras.Model,
    batch: objectives.Batch,
    dropout_seed: tf.Tensor | None,
) -> objectives.Tensors:
    outputs = objectives.outputs(model, batch, dropout_seed)
    arguments = outputs["logits"], batch["label_ids"]
    return {
        "classification_loss": objectives.cross_entropy(*arguments),
        "accuracy": objectives.correct(*arguments),
    }


# Of classifiers, and of multiple choice.
OBJECTIVE = objectives.Objective(
    losses={"classification_loss": 1.0},
    metrics=("accuracy",),
    sample_weights=_sample_weights,
    sample_values=_sample_values,
)


def _squared_error(
    model: AlbertClassifier,
    batch: objectives.Batch,
    dropout_seed: tf.Tensor | None,
) -> objectives.Tensors:
    outputs = objectives.outputs(model, batch, dropout_seed)
    number = tf.cast(outputs["logits"][:, 0], tf.float32)
    return {"regression_loss": tf.square(number - batch["label_ids"])}


# `label_ids` are float32 [B], on their own scale.
REGRESSION_OBJECTIVE = objectives.Objective(
    losses={"regression_loss": 1.0},
    metrics=(),
    sample_weights=lambda b: {"regression_loss": objectives.real_examples(b)},
    sample_values=_squared_error,
)
