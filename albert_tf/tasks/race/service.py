"""Signatures of a finetuned multiple-choice model, such as RACE."""

from typing import Any

import tensorflow as tf

from albert_tf.serving.services import service
from albert_tf.serving.services.service import Signature, Tensors
from albert_tf.tasks.race import model as head
from albert_tf.tasks.race import portable
from albert_tf.tasks.race import task as race
from albert_tf.text import packing_ops


class ChoiceService(service.Service):
    """Chooses one of the options of a question about an article."""

    model: head.AlbertMultipleChoice
    texts = "article", "question", "options"
    read_outputs = ("logits",)
    portable = portable

    def __init__(self, model: head.AlbertMultipleChoice, task: race.RaceTask):
        super().__init__(model, task.tokenizer, task.max_seq_length)
        self._count = task.options.num_options
        self._longest = task.options.max_qa_length

    @property
    def text_options(self) -> dict[str, Any]:
        return {"num_options": self._count, "max_qa_length": self._longest}

    def signatures(self) -> dict[str, Signature]:
        texts = [
            tf.TensorSpec([None], tf.string, "article"),
            tf.TensorSpec([None], tf.string, "question"),
            tf.TensorSpec([None, self._count], tf.string, "options"),
        ]
        return {
            "tokens": service.with_ids(self.tokens, service.IDS, self._count),
            "serving_default": tf.function(
                self.answer, input_signature=texts, autograph=False
            ),
        }

    def tokens(self, *ids: tf.Tensor) -> Tensors:
        """`logits` float32 [batch, options], and what the encoder says.

        `sequence_output` is [batch, options, seq, hidden], `pooled_output`
        [batch, options, hidden]. An option whose mask is all 0 is padding and
        is never chosen.
        """
        return self._outputs(dict(zip(service.IDS, ids, strict=True)))

    def _outputs(self, inputs: Tensors, *, unpad: bool = False) -> Tensors:
        inputs = service.of_one_shape(inputs)
        shape = tf.shape(self._checked(inputs["input_ids"]))
        flat = {k: tf.reshape(v, [-1, shape[2]]) for k, v in inputs.items()}
        rows = self.encode(flat, unpad=unpad)
        outputs = {
            name: tf.reshape(
                value, tf.concat([shape[:2], tf.shape(value)[1:]], 0)
            )
            for name, value in rows.items()
        }
        mask = inputs["input_mask"]
        logits = self.model.logits(outputs["pooled_output"], mask)
        return {**outputs, "logits": logits}

    def answer(
        self, article: tf.Tensor, question: tf.Tensor, options: tf.Tensor
    ) -> Tensors:
        """Choose an option.

        A gap, `_`, in a question is filled by the option; otherwise the option
        follows the question. An empty option is padding and is never
        chosen.

        Returns:
            `choice` int32 [batch], the index of the option; `label`, its
            letter, string [batch]; `probabilities` float32 [batch, options];
            `truncated` bool [batch]: whether an article was too long and its
            end left out, or a question with its option and its beginning.
        """
        inputs, truncated = self._pack_choices(article, question, options)
        outputs = self._outputs(inputs, unpad=True)
        probabilities = tf.nn.softmax(outputs["logits"])
        choice = tf.argmax(probabilities, -1, tf.int32)
        return {
            "choice": choice,
            "label": tf.gather(tf.constant(list(portable.LETTERS)), choice),
            "probabilities": probabilities,
            "truncated": truncated,
        }

    def _pack_choices(
        self, article: tf.Tensor, question: tf.Tensor, options: tf.Tensor
    ) -> tuple[Tensors, tf.Tensor]:
        """Return ids, mask and segments [batch, options, S], and what was cut.

        Source: `race.RaceTask.featurize`.
        """
        number = tf.size(article)
        article = service.checked(article, [number], "article must be [batch].")
        question = service.checked(
            question, [number], "There must be as many questions as articles."
        )
        options = service.checked(
            options,
            [number, self._count],
            f"options must be {self._count} for each article; fill up with ''.",
        )
        flat = tf.reshape(options, [-1])
        questions = tf.repeat(question, self._count)
        asked = self.tokenizer.tokenize(
            _choices(*map(self.tokenizer.clean, (questions, flat)))
        )
        pieces = self.read_pieces(article)
        articles = tf.gather(
            pieces, tf.repeat(tf.range(pieces.nrows()), self._count)
        )
        kept = asked[:, -self._longest :]
        limit = self.max_seq_length - 3 - kept.row_lengths()
        inputs, _ = self.pack(packing_ops.head(articles, limit), kept)
        is_cut = (asked.row_lengths() > self._longest) | (
            articles.row_lengths() > limit
        )
        is_real = tf.not_equal(flat, "")
        mask = tf.cast(is_real, tf.int32)[:, None]
        length = tf.shape(inputs["input_ids"])[1]
        shape = tf.stack([tf.shape(article)[0], self._count, length])
        rows = {k: tf.reshape(v * mask, shape) for k, v in inputs.items()}
        cut = tf.reshape(is_cut & is_real, [-1, self._count])
        return rows, tf.reduce_any(cut, 1)


def _choices(questions: tf.Tensor, options: tf.Tensor) -> tf.Tensor:
    """Return questions with their options; see `race.RaceTask.choices`."""
    one = tf.strings.regex_replace(questions, portable.GAP, portable.BLANK)
    parts = tf.strings.split(one, portable.BLANK)
    gaps = tf.gather(options, parts.value_rowids())
    # Every part but the last of its question ends at a gap.
    last = tf.gather(parts.row_splits, parts.value_rowids() + 1) - 1
    is_last = tf.range(tf.size(parts.flat_values, tf.int64)) == last
    filled = parts.flat_values + tf.where(is_last, "", gaps)
    joined = tf.strings.reduce_join(parts.with_flat_values(filled), axis=-1)
    has_gap = parts.row_lengths() > 1
    return tf.where(has_gap, joined, questions + " " + options)


SERVICES = {
    head.AlbertMultipleChoice: lambda task, made: ChoiceService(made, task)
}
