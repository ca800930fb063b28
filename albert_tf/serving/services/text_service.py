"""Signatures of finetuned classifiers and regressions."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.finetuning import windows
from albert_tf.model.heads import classification
from albert_tf.serving.services import service, text_windows
from albert_tf.serving.services.service import Tensors
from albert_tf.text import tokenization


class TextService(service.Service):
    """A finetuned model of one text or of pairs of texts."""

    model: classification.AlbertClassifier
    # From logits to probabilities.
    chances: Callable[[tf.Tensor], tf.Tensor] = staticmethod(tf.nn.softmax)

    def __init__(
        self,
        model: classification.AlbertClassifier,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        *,
        pairs: bool,
        labels: Sequence[str] = (),
        long: windows.WindowOptions | None = None,
    ):
        """Keep what the signatures need.

        Args:
            labels: Of a classifier, in the order of the logits.
            long: What is done with long texts. None: their ends are left out.
        """
        super().__init__(model, tokenizer, max_seq_length)
        self.texts = ("text", "text_pair") if pairs else ("text",)
        self.labels = tuple(labels)
        self._long = long or windows.WindowOptions()

    @property
    def text_options(self) -> dict[str, Any]:
        if not self._long.is_divided:
            return {}
        stride = self._long.stride(self.max_seq_length)
        return {"windows": self._long.windows, "window_stride": stride}

    def tokens(self, *ids: tf.Tensor) -> Tensors:
        """What `Service.tokens` gives, `logits` and `probabilities`.

        Both float32 [batch, labels]. For a regression the only logit is the
        number, and its probability 1: the original's signature has
        probabilities for every task.
        """
        return self._with_logits(super().tokens(*ids))

    def _with_logits(self, outputs: Tensors) -> Tensors:
        logits = outputs.get("logits")
        if logits is None:
            logits = self.model.logits(outputs["pooled_output"])
        chances = self.chances(logits)
        return {**outputs, "logits": logits, "probabilities": chances}

    def _outputs(self, texts: tuple[tf.Tensor, ...]) -> Tensors:
        """Return `tokens` for texts, and `truncated` bool [batch]."""
        if self._long.is_divided:
            return self._of_windows(*texts)
        inputs, truncated = self.pack(*map(self.tokenizer.tokenize, texts))
        outputs = self._with_logits(self.encode(inputs, unpad=True))
        return {**outputs, "truncated": truncated}

    def _of_windows(self, text: tf.Tensor) -> Tensors:
        stride = self._long.stride(self.max_seq_length)
        spec = tf.TensorSpec([None, self.model.num_labels])
        pieces = self.tokenizer.tokenize(text)
        found, logits = text_windows.ask(self, pieces, stride, spec)
        logits = text_windows.pool(
            logits, found.question, tf.size(text), self._long.windows
        )
        return self._with_logits(
            {"logits": logits, "truncated": tf.zeros_like(text, tf.bool)}
        )


class ClassifierService(TextService):
    """A finetuned classifier."""

    read_outputs = "probabilities", "layers"
    app_output = "probabilities"

    @property
    def can_adapt(self) -> bool:
        return not self._long.is_divided

    def answer(self, *texts: tf.Tensor) -> Tensors:
        """Classify texts.

        Returns:
            `label` string [batch], the likeliest; `labels` string and
            `probabilities` float32, both [batch, labels]; `truncated` bool
            [batch]: whether the texts were too long and an end left out. If
            adaptive, `layers` int32 [batch]: how many were used.
        """
        outputs = self._outputs(texts)
        probabilities = outputs["probabilities"]
        labels = tf.constant(self.labels)
        return {
            "label": tf.gather(labels, tf.argmax(probabilities, -1)),
            "labels": tf.broadcast_to(labels, tf.shape(probabilities)),
            "probabilities": probabilities,
            "truncated": outputs["truncated"],
            **{k: v for k, v in outputs.items() if k == "layers"},
        }


class MultiLabelService(TextService):
    """A finetuned classifier that gives any number of labels."""

    chances = staticmethod(tf.nn.sigmoid)
    read_outputs = ("probabilities",)
    app_output = "probabilities"

    def __init__(
        self,
        *args: Any,
        thresholds: Sequence[float],
        **kwargs: Any,
    ):
        """Keep what the signatures need; `thresholds` are those of `labels`."""
        super().__init__(*args, **kwargs)
        self.thresholds = tuple(thresholds)

    @property
    def text_options(self) -> dict[str, Any]:
        pairs = zip(self.labels, self.thresholds, strict=True)
        return {**super().text_options, "thresholds": dict(pairs)}

    def answer(self, *texts: tf.Tensor) -> Tensors:
        """Label texts.

        Returns:
            `predicted` string [batch, labels], those whose probability is above
            their threshold, filled up with empty ones; `labels` string and
            `probabilities` float32, both [batch, labels]; `truncated` bool
            [batch].
        """
        outputs = self._outputs(texts)
        chances = outputs["probabilities"]
        labels = tf.broadcast_to(tf.constant(self.labels), tf.shape(chances))
        is_given = chances > tf.constant(self.thresholds, tf.float32)
        found = tf.ragged.boolean_mask(labels, is_given)
        return {
            "predicted": found.to_tensor("", shape=chances.shape),
            "labels": labels,
            "probabilities": chances,
            "truncated": outputs["truncated"],
        }


class RegressionService(TextService):
    """A finetuned regression, such as STS-B."""

    read_outputs = ("logits",)

    def answer(self, *texts: tf.Tensor) -> Tensors:
        """`score` float32 [batch], on the labels' scale, and `truncated`."""
        outputs = self._outputs(texts)
        return {
            "score": outputs["logits"][:, 0],
            "truncated": outputs["truncated"],
        }
