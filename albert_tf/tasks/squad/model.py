"""Models that mark an answer inside a passage: SQuAD 1.1 and SQuAD 2.0.

Source: ALBERT appendix A.4; in the original, squad_utils.v1_model_fn_builder
and squad_utils.v2_model_fn_builder. The second head is that of XLNet.
"""

from collections.abc import Mapping

import tensorflow as tf
import tf_keras as keras

from albert_tf.model import model_inputs, seeds
from albert_tf.model.heads import classification, head, model_with_head
from albert_tf.model.losses import cross_entropy, objectives
from albert_tf.model.losses.objectives import Batch, Tensors
from albert_tf.model.network import layers
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.squad.task import SquadTask

# Subtracted from the logits of positions where no answer may be.
MASKED_LOGIT = 1e30


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertSquadV1(model_with_head.ModelWithHead):
    """One linear layer that scores every token as start and end (SQuAD 1.1)."""

    reads_pooler = False

    def __init__(self, encoder: AlbertModel):
        super().__init__(encoder, "albert_squad_v1")
        self.add_output("cls/squad/", 2)

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Return `start_logits` and `end_logits`, float [B, S].

        Padding gets logits too; the n-best list leaves it out.
        """
        outputs = self.encode(inputs, training, dropout_seed)
        return self.logits(outputs["sequence_output"])

    def logits(self, sequence_output: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return what `call` does for float [B, S, H]."""
        scores = self.token_scores(sequence_output)
        return {"start_logits": scores[..., 0], "end_logits": scores[..., 1]}


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertSquadV2(model_with_head.ModelWithHead):
    """Start, end that depends on the start, and answerability (SQuAD 2.0).

    In training the end is predicted from the right start; afterwards from each
    of the `start_n_top` likeliest starts, with the `end_n_top` likeliest ends
    for each.
    """

    input_keys = (*model_inputs.ENCODER, "p_mask", "start_positions")

    def __init__(
        self,
        encoder: AlbertModel,
        start_n_top: int = 5,
        end_n_top: int = 5,
        dropout: float = classification.DROPOUT,
    ):
        """Add a new head; `dropout` is that inside the answerability part."""
        super().__init__(encoder, "albert_squad_v2", dropout)
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top
        config, width = encoder.config, encoder.config.hidden_size

        def dense(scope: str, inputs: int, units: int) -> layers.Dense:
            return layers.Dense(scope, inputs, units, config)

        self.start_dense = dense("start_logits/dense", width, 1)
        self.end_hidden = dense("end_logits/dense_0", 2 * width, width)
        self.end_norm = layers.LayerNorm(
            "end_logits/LayerNorm", width, config.layer_norm_eps
        )
        self.end_dense = dense("end_logits/dense_1", width, 1)
        self.answer_hidden = dense("answer_class/dense_0", 2 * width, width)
        self.answer_kernel = self.add_weight(
            name="answer_class/dense_1/kernel",
            shape=[width, 1],
            initializer=layers.truncated_normal(config.initializer_range),
        )

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Find answers.

        Args:
            inputs: Those of the encoder; `p_mask` int32 [B, S], 1 where no
                answer may be (question, markers, padding); and, to predict ends
                from the right starts as in training, `start_positions` int32
                [B].

        Returns:
            `cls_logits` float32 [B], larger for questions without an answer,
            and, given `start_positions`, `start_log_probs` and `end_log_probs`
            float32 [B, S]; otherwise what `search` returns.
        """
        outputs = self.encode(inputs, training, dropout_seed)
        dropout = self.head_dropout(training, dropout_seed)
        if "start_positions" not in inputs:
            return self.search(
                outputs["sequence_output"],
                inputs["p_mask"],
                dropout,
                training=training,
            )
        x = tf.cast(outputs["sequence_output"], tf.float32)
        p_mask = tf.cast(inputs["p_mask"], tf.float32)
        starts = self._start_log_probs(x, p_mask, training)
        chosen = inputs["start_positions"][:, None]
        ends = self._end_log_probs(x, chosen, p_mask, training)
        return {
            "cls_logits": self._answerability(x, starts, dropout, training),
            "start_log_probs": starts,
            "end_log_probs": ends[:, 0],
        }

    def search(
        self,
        sequence_output: tf.Tensor,
        p_mask: tf.Tensor,
        dropout: seeds.DropoutSeeds = seeds.NO_DROPOUT,
        *,
        training: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Find the best ends for the best starts.

        Args:
            sequence_output: float [B, S, H].

        Returns:
            `cls_logits`, see `call`;
            `start_top_log_probs` float32 and `start_top_index` int32 [B, K],
            `end_top_log_probs` float32 and `end_top_index` int32 [B, K * L]:
            entry i * L + j is the j-th end for the i-th start. K and L are
            `start_n_top` and `end_n_top`, at most S.
        """
        x = tf.cast(sequence_output, tf.float32)
        p_mask = tf.cast(p_mask, tf.float32)
        length = tf.shape(x)[1]
        starts = self._start_log_probs(x, p_mask, training)
        best = tf.math.top_k(starts, tf.minimum(self.start_n_top, length))
        ends = tf.math.top_k(
            self._end_log_probs(x, best.indices, p_mask, training),
            tf.minimum(self.end_n_top, length),
        )
        flat = [tf.shape(x)[0], -1]
        return {
            "cls_logits": self._answerability(x, starts, dropout, training),
            "start_top_log_probs": best.values,
            "start_top_index": best.indices,
            "end_top_log_probs": tf.reshape(ends.values, flat),
            "end_top_index": tf.reshape(ends.indices, flat),
        }

    def _start_log_probs(
        self, x: tf.Tensor, p_mask: tf.Tensor, training: bool
    ) -> tf.Tensor:
        logits = self.start_dense(x, training)[..., 0]
        return _masked_log_softmax(logits, p_mask)

    def _end_log_probs(
        self, x: tf.Tensor, starts: tf.Tensor, p_mask: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """Return float32 [B, K, S] for each of the starts, int32 [B, K]."""
        begun = tf.gather(x, starts, batch_dims=1)  # [B, K, H]
        # Both [B, K, S, H]: every position paired with every start.
        positions = tf.repeat(x[:, None], tf.shape(starts)[1], 1)
        begun = tf.repeat(begun[:, :, None], tf.shape(x)[1], 2)
        both = tf.concat([positions, begun], -1)
        hidden = tf.tanh(self.end_hidden(both, training))
        hidden = self.end_norm(hidden, training)
        logits = self.end_dense(hidden, training)[..., 0]
        return _masked_log_softmax(logits, p_mask[:, None])

    def _answerability(
        self,
        x: tf.Tensor,
        starts: tf.Tensor,
        dropout: seeds.DropoutSeeds,
        training: bool,
    ) -> tf.Tensor:
        expected = tf.einsum("BS,BSH->BH", tf.exp(starts), x)
        both = tf.concat([expected, x[:, 0]], -1)
        hidden = tf.tanh(self.answer_hidden(both, training))
        hidden = dropout(hidden, self.dropout)
        return tf.matmul(hidden, self.answer_kernel)[:, 0]


def _masked_log_softmax(logits: tf.Tensor, p_mask: tf.Tensor) -> tf.Tensor:
    return tf.nn.log_softmax(logits * (1 - p_mask) - MASKED_LOGIT * p_mask)


HEADS = (
    head.Head(
        "cls/squad",
        "",
        lambda encoder, _: AlbertSquadV1(encoder),
        reads_pooler=False,
        transformers={
            "ForQuestionAnswering": (("cls/squad/", "output", "qa_outputs"),)
        },
        pipelines={"ForQuestionAnswering": "question-answering"},
    ),
    head.Head("squad_v2", "", lambda encoder, _: AlbertSquadV2(encoder)),
)


def _at(log_probs: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Return -log_probs [B, S] at positions [B]."""
    return -tf.gather(log_probs, positions, batch_dims=1)


def _v1_values(outputs: Tensors, batch: Batch) -> Tensors:
    return {
        f"{edge}_loss": cross_entropy.compute(
            outputs[f"{edge}_logits"], batch[f"{edge}_positions"]
        )
        for edge in ("start", "end")
    }


def _v2_values(outputs: Tensors, batch: Batch) -> Tensors:
    return {
        "start_loss": _at(outputs["start_log_probs"], batch["start_positions"]),
        "end_loss": _at(outputs["end_log_probs"], batch["end_positions"]),
        "answer_loss": tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(batch["is_impossible"], tf.float32),
            logits=outputs["cls_logits"],
        ),
    }


V1 = objectives.per_example({"start_loss": 0.5, "end_loss": 0.5}, _v1_values)
V2 = objectives.per_example(
    {"start_loss": 0.5, "end_loss": 0.5, "answer_loss": 0.5}, _v2_values
)


def make(task: SquadTask, encoder: AlbertModel) -> keras.Model:
    # The pooler has no part in it and keeps its weights, as in the original.
    if not task.has_null:
        return AlbertSquadV1(encoder)
    options = task.options
    return AlbertSquadV2(
        encoder, options.start_n_top, options.end_n_top, options.dropout_prob
    )


def objective(task: SquadTask) -> objectives.Objective:
    return V2 if task.has_null else V1
