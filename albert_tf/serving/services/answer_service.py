"""Signatures of a finetuned question-answering model, SQuAD."""

import dataclasses
from typing import Any, ClassVar

import tensorflow as tf

from albert_tf.finetuning.squad import squad
from albert_tf.model.heads import question_answering
from albert_tf.serving.formats import answer_squad
from albert_tf.serving.services import answer_ops, service, text_windows
from albert_tf.serving.services.service import Tensors
from albert_tf.text import tokenization

Model = question_answering.AlbertSquadV1 | question_answering.AlbertSquadV2


class AnswerService(service.Service):
    """Finds the answer to a question in a context of any length.

    A long context is divided into overlapping windows. They go through the
    network in batches of 16.
    """

    model: Model
    texts = "question", "context"
    reads_offsets = True
    portable = answer_squad
    # The outputs of `tokens` that answers are made of.
    parts: ClassVar[dict[str, tf.TensorSpec]]
    # The score of a question without any span; see `squad_answers`.
    empty_score: ClassVar[float]

    def __init__(
        self,
        model: Model,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: squad.SquadOptions,
        threshold: float = 0.0,
    ):
        """Keep what the signatures need.

        Args:
            max_seq_length: Tokens of a window with its question.
            threshold: SQuAD 2.0: questions with a higher score for "no answer"
                have none.
        """
        super().__init__(model, tokenizer, max_seq_length)
        self._options = options
        self._threshold = threshold

    @property
    def text_options(self) -> dict[str, Any]:
        options = self._options
        return {
            **dataclasses.asdict(options.windows),
            **dataclasses.asdict(options.answers),
        }

    def answer(self, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        """Answer questions, string [batch], about contexts, string [batch].

        Where a context has no piece that the vocabulary could hold, as an empty
        one, there is no answer.

        Returns:
            `answer` string [batch], a part of the context as it was given, ""
            if there is none;
            `start` and `end` int32 [batch], its first byte in the context and
            its last one plus 1; 0 and 0 for "";
            `score` float32 [batch], the sum of the scores of start and end;
            `question_truncated` bool [batch], whether the question was too long
            and its end left out;
            and what `answer_ops.n_best` returns.
        """
        return self._find(question, context)[0]

    def _find(
        self, question: tf.Tensor, context: tf.Tensor
    ) -> tuple[Tensors, Tensors, answer_ops.WindowTensors]:
        longest = self._options.windows.max_query_length
        asked = self.tokenizer.tokenize(question)
        queries = asked[:, :longest]
        pieces, starts, ends = self.tokenizer.tokenize_with_offsets(context)
        windows = answer_ops.make_windows(
            tf.cast(queries.row_lengths(), tf.int32),
            tf.cast(pieces.row_lengths(), tf.int32),
            self.max_seq_length,
            self._options.windows.doc_stride,
        )
        inputs, _ = self.pack(
            tf.gather(queries, windows.question),
            answer_ops.cut(windows, pieces),
        )
        length = tf.shape(inputs["input_ids"])[1]
        inputs["p_mask"] = answer_ops.p_mask(windows, length)
        rows = [inputs[name] for name in self.ids]
        outputs = text_windows.ask_in_parts(self.tokens, rows, self.parts)
        answers = self._options.answers
        found = answer_ops.n_best(
            context,
            answer_ops.find_spans(
                windows,
                starts,
                ends,
                answer_ops.propose(outputs, windows, answers.n_best_size),
                answers.max_answer_length,
            ),
            answers.n_best_size,
            self.empty_score,
        )
        best = {
            "answer": found["n_best_answers"][:, 0],
            "score": found["n_best_scores"][:, 0],
            "start": found["n_best_start"][:, 0],
            "end": found["n_best_end"][:, 0],
            "question_truncated": asked.row_lengths() > longest,
        }
        return {**best, **found}, outputs, windows


class AnswerServiceV1(AnswerService):
    """Every question has an answer (SQuAD 1.1).

    DIFFERS: a question without any span gets the answer "", where the files of
    `SquadTask` and of the original say "empty".
    """

    model: question_answering.AlbertSquadV1
    parts: ClassVar = {
        "start_logits": tf.TensorSpec([None, None]),
        "end_logits": tf.TensorSpec([None, None]),
    }
    read_outputs = tuple(parts)
    empty_score = 0.0

    def tokens(self, *ids: tf.Tensor) -> Tensors:
        """What `Service.tokens` gives, `start_logits` and `end_logits`.

        The last two are float32 [batch, seq], for padding too.
        """
        outputs = super().tokens(*ids)
        return {**outputs, **self.model.logits(outputs["sequence_output"])}


class AnswerServiceV2(AnswerService):
    """Questions may have no answer (SQuAD 2.0)."""

    model: question_answering.AlbertSquadV2
    ids = (*service.IDS, "p_mask")
    parts: ClassVar = {
        "start_top_log_probs": tf.TensorSpec([None, None]),
        "start_top_index": tf.TensorSpec([None, None], tf.int32),
        "end_top_log_probs": tf.TensorSpec([None, None]),
        "end_top_index": tf.TensorSpec([None, None], tf.int32),
        "cls_logits": tf.TensorSpec([None]),
    }
    read_outputs = tuple(parts)
    empty_score = -2e6

    def tokens(self, *ids: tf.Tensor) -> Tensors:
        """What `Service.tokens` gives, and what `AlbertSquadV2.search` does.

        Args:
            ids: The last of them is `p_mask`, 1 where no answer may be: in the
                question, on padding, on markers but the first.
        """
        inputs = service.of_one_shape(dict(zip(self.ids, ids, strict=True)))
        p_mask = inputs.pop("p_mask")
        outputs = super().tokens(*inputs.values())
        found = self.model.search(outputs["sequence_output"], p_mask)
        return {**outputs, **found}

    @property
    def text_options(self) -> dict[str, Any]:
        return {
            **super().text_options,
            "null_score_diff_threshold": self._threshold,
            "original_threshold": self._options.original_threshold,
        }

    def answer(self, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        """Answer questions, string [batch], about contexts, string [batch].

        Returns:
            What `AnswerService.answer` does. Where the score for "no answer" is
            above the threshold, `answer` is "", and `start` and `end` are 0;
            `score` and the n-best list say what would have been answered.
            `no_answer_score` float32 [batch], the lowest of all windows,
            1,000,000 without any; `no_answer_probability` float32 [batch].
        """
        found, outputs, windows = self._find(question, context)
        score = answer_ops.null_scores(
            outputs["cls_logits"], windows, tf.size(question)
        )
        limit = tf.constant(self._threshold, tf.float64)
        wide = tf.cast(score, tf.float64)
        is_answered = wide <= limit
        if self._options.original_threshold:
            is_answered = wide < limit
        return {
            **found,
            "answer": tf.where(is_answered, found["answer"], ""),
            "start": tf.where(is_answered, found["start"], 0),
            "end": tf.where(is_answered, found["end"], 0),
            "no_answer_score": score,
            "no_answer_probability": tf.sigmoid(score),
        }
