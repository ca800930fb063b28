"""Signatures of models that tag words."""

from collections.abc import Sequence

import tensorflow as tf

from albert_tf.finetuning import overlaps
from albert_tf.serving.services import service, text_windows
from albert_tf.serving.services.service import Tensors
from albert_tf.tasks.tagging import model as head
from albert_tf.tasks.tagging import portable
from albert_tf.tasks.tagging.portable import OUTSIDE
from albert_tf.text import offset_ops, tokenization, word_ops


class TagService(service.Service):
    """Finds spans in texts of any length.

    A long text is divided into windows, as in `tasks.tagging`.
    """

    model: head.AlbertTokenClassifier
    reads_offsets = True
    portable = portable
    read_outputs = ("logits",)
    read_whole = "text"

    def __init__(
        self,
        model: head.AlbertTokenClassifier,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        labels: Sequence[str],
    ):
        """Keep what the signatures need; `labels` go with the logits."""
        super().__init__(model, tokenizer, max_seq_length)
        self.labels = tuple(labels)
        self._has_entities = has_entities = portable.are_entities(labels)
        labels = [*labels, OUTSIDE]  # Words without a piece have the last.
        if has_entities:
            found = map(portable.ENTITY.fullmatch, labels)
            names = [match[2] if match else "" for match in found]
        else:
            names = ["" if label == OUTSIDE else label for label in labels]
        self._types = sorted({name for name in names if name})
        # Of each tag: the number of its type, -1 for none; whether it begins an
        # entity; whether nothing goes on after it.
        self._type = [self._types.index(name) if name else -1 for name in names]
        self._begins, self._ended = (
            [not has_entities or label[0] in prefixes for label in labels]
            for prefixes in (portable.BEGIN, portable.ENDED)
        )

    def tokens(self, *ids: tf.Tensor) -> Tensors:
        """`logits` float32 [batch, seq, tags]; `sequence_output` as `Service`.

        There is no `pooled_output`: nothing here trains a pooler.
        """
        sequence = super().tokens(*ids)["sequence_output"]
        return {
            "sequence_output": sequence,
            "logits": self.model.token_scores(sequence),
        }

    def answer(self, text: tf.Tensor) -> Tensors:
        """Find the spans of texts, string [batch].

        Returns:
            `num_spans` int32 [batch]; [batch, spans], filled up with "" and 0:
            `span_label` and `span_text` string; `span_score` float32, the mean
            probability of the tags of its words; `span_start` and `span_end`
            int32, the first character in the text and the last one plus 1;
            `span_start_byte` and `span_end_byte` int32, the same in bytes.
        """
        text = text_windows.require_short(text)
        pieces, starts, ends = self.tokenizer.tokenize_with_offsets(text)
        found, characters = word_ops.find(text)
        first, goes_on = word_ops.find_pieces(
            text, found, characters, starts, ends
        )
        probabilities = self._probabilities(pieces)
        # What a word without a piece says: the last of the tags.
        last = tf.one_hot([self.model.num_labels], self.model.num_labels + 1)
        probabilities = tf.pad(probabilities, [(0, 0), (0, 1)])
        probabilities = tf.concat([probabilities, last], 0)
        nothing = tf.shape(probabilities)[0] - 1
        of_words = tf.gather(probabilities, tf.minimum(first, nothing))
        return self._spans(text, found, of_words, goes_on)

    def _probabilities(self, pieces: tf.RaggedTensor) -> tf.Tensor:
        """Return those of the tags of all pieces, float32 [pieces, tags]."""
        tags = self.model.num_labels
        windows, logits = text_windows.ask(
            self,
            pieces,
            overlaps.stride(self.max_seq_length),
            tf.TensorSpec([None, None, tags]),
        )
        # Of each piece, the window where it counts, and its place there.
        where = tf.where(text_windows.sees_best(windows, pieces))
        window, place = tf.unstack(tf.cast(where, tf.int32), axis=1)
        rows = tf.cast(pieces.row_starts(), tf.int32)
        begin = windows.begin + tf.gather(rows, windows.question)
        piece = tf.gather(begin, window) + place
        position = tf.stack([window, place + 1], 1)  # After [CLS].
        values = tf.nn.softmax(tf.gather_nd(logits, position))
        shape = [tf.size(pieces.flat_values), tags]
        return tf.scatter_nd(piece[:, None], values, shape)

    def _spans(
        self,
        text: tf.Tensor,
        words: word_ops.Words,
        probabilities: tf.Tensor,
        goes_on: tf.Tensor,
    ) -> Tensors:
        """Join words to spans; see `portable.to_bio` and `entities`.

        Args:
            probabilities: float32 [words, tags + 1].
            goes_on: bool [words], which words share the piece, and the tag, of
                the one before them.
        """
        is_first = ~goes_on
        label = tf.boolean_mask(tf.argmax(probabilities, -1), is_first)
        begins = self._begin_spans(label, tf.boolean_mask(words.row, is_first))
        # Back to all words, from the first of each piece.
        carrier = tf.cumsum(tf.cast(is_first, tf.int32)) - 1
        type_ = tf.gather(tf.gather(self._type, label), carrier)
        inside = type_ >= 0
        begins = tf.gather(begins, carrier)
        if self._has_entities:
            begins &= is_first
        count = tf.reduce_sum(tf.cast(begins, tf.int32))
        span = tf.boolean_mask(tf.cumsum(tf.cast(begins, tf.int32)) - 1, inside)
        best = tf.boolean_mask(tf.reduce_max(probabilities, -1), is_first)
        best = tf.boolean_mask(tf.gather(best, carrier), inside)

        def first_of(values: tf.Tensor) -> tf.Tensor:
            return tf.boolean_mask(values, begins)

        def last_of(values: tf.Tensor) -> tf.Tensor:
            kept = tf.boolean_mask(values, inside)
            return tf.math.unsorted_segment_max(kept, span, count)

        start, end = first_of(words.start), last_of(words.end)
        rows = first_of(words.row)
        values = {
            "label": tf.gather([*self._types, ""], first_of(type_)),
            "text": tf.strings.substr(
                tf.gather(text, rows), start, end - start
            ),
            "score": tf.math.unsorted_segment_mean(best, span, count),
            "start": first_of(words.start_character),
            "end": last_of(words.end_character),
            "start_byte": start,
            "end_byte": end,
        }
        return _padded(values, rows, tf.size(text, tf.int64))

    def _begin_spans(self, label: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        """Return whether a span begins, for labels and rows [words]."""
        type_ = tf.gather(self._type, label)
        same_row = offset_ops.previous(row, -1) == row
        continues = same_row & (offset_ops.previous(type_, -1) == type_)
        continues &= ~offset_ops.previous(tf.gather(self._ended, label), True)
        return (type_ >= 0) & (tf.gather(self._begins, label) | ~continues)


def _padded(values: Tensors, rows: tf.Tensor, size: tf.Tensor) -> Tensors:
    """Return values of spans [spans] as [batch, spans], and their number."""
    splits = tf.searchsorted(rows, tf.range(tf.cast(size, rows.dtype) + 1))
    counts = splits[1:] - splits[:-1]
    column = tf.range(tf.reduce_max(tf.concat([[0], counts], 0)))
    is_span = column < counts[:, tf.newaxis]
    # Of each entry, its span; what is filled up reads one more.
    index = tf.where(is_span, splits[:-1, tf.newaxis] + column, tf.size(rows))
    return {
        "num_spans": counts,
        **{
            f"span_{name}": tf.gather(
                tf.concat([value, tf.zeros([1], value.dtype)], 0), index
            )
            for name, value in values.items()
        },
    }


SERVICES = {
    head.AlbertTokenClassifier: lambda task, made: TagService(
        made, task.tokenizer, task.max_seq_length, task.labels
    )
}
