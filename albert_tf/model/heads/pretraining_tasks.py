"""The heads of tasks about segments, such as sentence order, and about tokens.

Source: ALBERT §3.1; in the original,
run_pretraining.get_sentence_order_output.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from albert_tf.model.heads import model_with_head

# Scope of the heads of other tasks.
TASKS = "cls/tasks"


class ModelWithTasks(model_with_head.ModelWithHead):
    """Learns, beside other things, tasks of `data.arrangements`.

    sop and nsp have ALBERT's head, each other task has a head of its own.
    """

    def _add_tasks(
        self,
        sentence_order: bool,
        tasks: Mapping[str, int] | None = None,
        token_tasks: Sequence[str] = (),
    ) -> None:
        """Create the heads; `tasks` are names to numbers of classes."""
        self.sentence_order = sentence_order
        self.tasks = dict(tasks or {})
        self.task_heads = {
            name: self._add_head(f"{TASKS}/{name}", classes)
            for name, classes in self.tasks.items()
        }
        self.token_tasks = list(token_tasks)
        self.token_heads = {
            name: self._add_head(f"{TASKS}/{name}", 2) for name in token_tasks
        }
        if sentence_order:
            scope = "cls/seq_relationship"
            self.order_weights, self.order_bias = self._add_head(scope, 2)

    def _add_head(self, scope: str, classes: int) -> tuple[tf.Variable, ...]:
        stddev = self.encoder.config.initializer_range
        return self._linear(f"{scope}/", classes, stddev)

    def _token_outputs(
        self, sequence_output: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Return `NAME_logits` float32 [B, S, 2] of the tasks about tokens."""
        x = tf.cast(sequence_output, tf.float32)
        return {
            f"{name}_logits": bias + tf.einsum("BSH,CH->BSC", x, weights)
            for name, (weights, bias) in self.token_heads.items()
        }

    def sentence_order_logits(self, pooled_output: tf.Tensor) -> tf.Tensor:
        """Return float32 [..., 2] for the pooled output [..., H].

        Index 1 means that the segments were swapped (with
        `sentence_objective=nsp`: that they are of two documents).
        """
        head = self.order_weights, self.order_bias
        return model_with_head.logits(pooled_output, *head)

    def _sentence_outputs(
        self,
        pooled_output: tf.Tensor,
        cls_vectors: tf.Tensor | None,
        training: bool,
    ) -> dict[str, tf.Tensor]:
        """Return `sentence_order_logits`, and `NAME_logits` of other tasks.

        In rows of several instances `cls_vectors` are the encoder's output at
        the first token of each, float [B, K, H].
        """
        if not (self.sentence_order or self.task_heads):
            return {}
        if cls_vectors is not None:
            if self.encoder.config.pooling != "cls":
                raise ValueError("Rows of several instances need pooling=cls.")
            assert self.encoder.pooler is not None
            pooled_output = self.encoder.pooler(cls_vectors, training)
        outputs = {
            f"{name}_logits": model_with_head.logits(pooled_output, *head)
            for name, head in self.task_heads.items()
        }
        if self.sentence_order:
            logits = self.sentence_order_logits(pooled_output)
            outputs["sentence_order_logits"] = logits
        return outputs
