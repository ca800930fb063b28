"""Signatures of finetuned classifiers and regressions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.common import errors
from albert_tf.model.checkpoints import huggingface
from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving.services import service, text_windows
from albert_tf.serving.services.service import Tensors
from albert_tf.tasks.text import portable
from albert_tf.tasks.text.task import WindowOptions
from albert_tf.text import tokenization


class TextService(service.Service):
    """A finetuned model of one text or of pairs of texts."""

    model: classification.AlbertClassifier
    portable = portable
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
        long: WindowOptions | None = None,
    ):
        """Keep what the signatures need.

        Args:
            labels: Of a classifier, in the order of the logits.
            long: What is done with long texts. None: their ends are left out.
        """
        super().__init__(model, tokenizer, max_seq_length)
        self.texts = ("text", "text_pair") if pairs else ("text",)
        self.labels = tuple(labels)
        self._long = long or WindowOptions()
        self.read_whole = "text" if self._long.is_divided else None

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
        classification.warn_of_rounding(self.model.mean, self.model.deviation)
        return self._with_logits(super().tokens(*ids), tf.float32)

    @property
    def _dtype(self) -> tf.DType:
        """That of logits in answers to texts."""
        return tf.float64 if self.model.has_scale else tf.float32

    def _with_logits(self, outputs: Tensors, dtype: tf.DType) -> Tensors:
        logits = outputs.get("logits")
        if logits is None:
            pooled = outputs["pooled_output"]
            logits = self.model.logits(pooled, dtype=dtype)
        chances = self.chances(logits)
        return {**outputs, "logits": logits, "probabilities": chances}

    def _outputs(self, texts: tuple[tf.Tensor, ...]) -> Tensors:
        """Return `tokens` for texts, and `truncated` bool [batch]."""
        if self._long.is_divided:
            return self._of_windows(*texts)
        inputs, truncated = self.pack(*map(self.read_pieces, texts))
        encoded = self.encode(inputs, unpad=True)
        outputs = self._with_logits(encoded, self._dtype)
        return {**outputs, "truncated": truncated}

    def _of_windows(self, text: tf.Tensor) -> Tensors:
        stride = self._long.stride(self.max_seq_length)
        spec = tf.TensorSpec([None, self.model.num_labels], self._dtype)
        text = text_windows.require_short(text)
        pieces = self.tokenizer.tokenize(text)

        def tokens(*ids: tf.Tensor) -> Tensors:
            return self._with_logits(
                service.Service.tokens(self, *ids), spec.dtype
            )

        windows, logits = text_windows.ask(self, pieces, stride, spec, tokens)
        logits = pool(
            logits, windows.question, tf.size(text), self._long.windows
        )
        truncated = tf.zeros_like(text, tf.bool)
        return self._with_logits(
            {"logits": logits, "truncated": truncated}, spec.dtype
        )


class ClassifierService(TextService):
    """A finetuned classifier."""

    kind = "ClassifierService"
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

    kind = "MultiLabelService"
    chances = staticmethod(tf.nn.sigmoid)
    read_outputs = ("probabilities",)
    app_output = "probabilities"

    def __init__(self, *args: Any, thresholds: Sequence[float], **kwargs: Any):
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
        predicted = tf.ragged.boolean_mask(labels, is_given)
        return {
            "predicted": predicted.to_tensor("", shape=chances.shape),
            "labels": labels,
            "probabilities": chances,
            "truncated": outputs["truncated"],
        }


class RegressionService(TextService):
    """A finetuned regression, such as STS-B."""

    kind = "RegressionService"
    read_outputs = ("logits",)

    def answer(self, *texts: tf.Tensor) -> Tensors:
        """`score` [batch], on the labels' scale, and `truncated`.

        It is float32; float64 if the run has learnt a mean of the numbers.
        """
        outputs = self._outputs(texts)
        return {
            "score": outputs["logits"][:, 0],
            "truncated": outputs["truncated"],
        }


def pool(
    logits: tf.Tensor, text: tf.Tensor, count: tf.Tensor, how: str
) -> tf.Tensor:
    """Do what `portable.pool` does, given the text of each window, int32."""
    if how == portable.MAX:
        return tf.math.unsorted_segment_max(logits, text, count)
    return tf.math.unsorted_segment_mean(logits, text, count)


def of_texts(
    model: classification.AlbertClassifier,
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
    **about: Any,
) -> service.Service:
    """Serve a classifier; without labels a regression.

    Args:
        about: See `TextService`. With `thresholds` of probabilities a text may
            have several labels.
    """
    kind: Callable[..., TextService] = RegressionService
    if "thresholds" in about:
        kind = MultiLabelService
    elif about["labels"]:
        kind = ClassifierService
    return kind(model, tokenizer, max_seq_length, **about)


def of_checkpoint(
    encoder: AlbertModel,
    tokenizer: tokenization.AnyTokenizer,
    path: str,
    values: Mapping[str, Any],
) -> service.Service:
    """Serve the head of a checkpoint that is no run.

    Args:
        values: The options `task`, classifier or regression, `num_labels`,
            `labels`, `pairs` and `max_seq_length`.
    """
    about: dict[str, Any] = {"labels": [], "pairs": values.get("pairs", False)}
    if values["task"] == "classifier":
        details = None
        if huggingface.is_folder(path):
            details = huggingface.read_details(path)
        names = list(details.labels) if details else []
        labels = about["labels"] = _labels(values, names)
        if details and details.is_multi_label:
            about["thresholds"] = [portable.EVEN] * len(labels)
    model = classification.AlbertClassifier(encoder, len(about["labels"]) or 1)
    return of_texts(model, tokenizer, values["max_seq_length"], **about)


def _labels(values: Mapping[str, Any], names: Sequence[str]) -> Sequence[str]:
    """Return the labels that are given, else `names`, else numbers."""
    count = values["num_labels"]
    names = names or list(map(str, range(count)))
    if "labels" in values:
        names = [name.strip() for name in values["labels"].split(",")]
    if len(set(names)) < len(names) or not all(names):
        raise errors.UserError(
            f"`labels={values['labels']}` has a name twice, or an empty one. "
            "Give every class a name of its own."
        )
    if len(names) != count or count < 2:
        raise errors.UserError(
            "`task=classifier` needs two classes at least, and a name for "
            f"each: there are {count} classes and {len(names)} names. See "
            "`num_labels` and `labels`; for one output use `task=regression`."
        )
    return names


SERVICES = {
    classification.AlbertClassifier: lambda task, made: of_texts(
        made, task.tokenizer, task.max_seq_length, **task.about
    )
}
