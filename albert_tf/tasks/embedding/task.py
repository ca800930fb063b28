"""Vectors of texts: texts that have much in common get close ones.

Sources: scored pairs, Reimers and Gurevych, arXiv 1908.10084, section 3;
pairs alone, Henderson et al., arXiv 1705.00652, section 4.4.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, packed_vectors, prompts, ranges, rows
from albert_tf.common.options import checked, option, shown
from albert_tf.data import layouts
from albert_tf.finetuning import base, metrics, packing
from albert_tf.finetuning.packing import TextExample
from albert_tf.model.config import TEXT_POOLINGS
from albert_tf.tasks.embedding import data, retrieval
from albert_tf.text import tokenization

NAME = "embedding"


@dataclasses.dataclass(frozen=True)
@checked
@shown(Model="temperature", Data="train_examples dev_examples max_score")
class EmbeddingOptions:
    """What is compared, and how vectors are made."""

    train_examples: str = option(
        data.SCORED,
        "What the training file has. scored: text, text_pair, score; the "
        "cosine learns the score. pairs: text, text_pair; each text learns to "
        "find its own among all of the batch, and the other way round. "
        "triplets: text, positive, negative; as pairs, with the negatives "
        "among those to choose from. texts: text alone, for distill.",
        choices=(*data.KINDS, data.TEXTS),
    )
    dev_examples: str | None = option(
        None,
        "What the development and the test file have. retrieval: texts, and "
        "queries with the ids of those that answer them. Default: as "
        "--train_examples.",
        choices=(*data.KINDS, data.RETRIEVAL),
    )
    text_pooling: str | None = option(
        None,
        "How the vectors of the tokens become that of the text. Default: as in "
        "the sentence-transformers folder of --init_checkpoint, else mean.",
        choices=TEXT_POOLINGS,
        may_change=True,
    )
    projection_size: int | None = option(
        None,
        "Width of the vectors, by one more linear layer. 0: that of the "
        "encoder. Default: that of the run or --init_checkpoint, else 0; with "
        "distill the teacher's.",
        within=ranges.Range(0, 2**14),
        may_change=True,
    )
    max_score: float = option(
        1.0,
        "The score of texts that mean the same, such as 5 for STS-B: its "
        "cosine is 1.",
        within=ranges.Range(above=0, high=1e6),
    )
    temperature: float = option(
        0.05,
        "pairs, triplets: what cosines are divided by before the softmax.",
        within=ranges.Range(above=0, high=100),
    )
    prefix_dimensions: str | None = option(
        None,
        "Numbers such as 32,64,128: the first 32, 64 and 128 numbers of a "
        "vector learn the same comparisons, so that they are usable alone, as "
        "a smaller vector; scores are reported for each.",
    )
    given_out: packed_vectors.VectorOptions = packed_vectors.WHOLE
    prompting: prompts.PromptOptions = prompts.NONE

    @property
    def prefixes(self) -> tuple[int, ...]:
        """The numbers of `prefix_dimensions`, in order."""
        if self.prefix_dimensions is None:
            return ()
        words = self.prefix_dimensions.split(",")
        if not all(w.strip().isdecimal() and int(w) for w in words):
            raise errors.UserError(
                f"`prefix_dimensions={self.prefix_dimensions}` must be numbers "
                "above 0 with commas between them, such as 32,64,128."
            )
        return tuple(sorted({*map(int, words)}))


@dataclasses.dataclass(frozen=True)
@checked
class ExportOptions:
    """What albert_tf.export may be told about vectors of texts."""

    text_pooling: str | None = option(
        None,
        "embedding: how the vectors of the tokens become that of the text. "
        "Default: as in a sentence-transformers folder, else mean.",
        choices=TEXT_POOLINGS,
    )
    given_out: packed_vectors.VectorOptions = packed_vectors.WHOLE
    prompting: prompts.PromptOptions = prompts.NONE


@dataclasses.dataclass(frozen=True)
class VectorFacts(base.Facts):
    """How vectors are made; see `AlbertEmbedder` and `PromptOptions`."""

    text_pooling: str = "mean"
    projection_size: int = 0
    prompts: str | None = None
    prompt: str | None = None


class EmbeddingTask(packing.PackedTask):
    """A vector for each text. Records have `[CLS] text [SEP]` for each."""

    package = __package__
    command = "run_embeddings"
    options_class = EmbeddingOptions
    export_options = ExportOptions
    facts_class = VectorFacts
    facts: VectorFacts
    name = NAME
    pooler = "drops"
    taught_by = "embedding"
    teacher_reads_alike = True
    exit_options = ("exit_layers",)

    def __init__(
        self,
        tokenizer: tokenization.AnyTokenizer,
        max_seq_length: int,
        options: EmbeddingOptions,
        facts: VectorFacts | None = None,
    ):
        super().__init__(tokenizer, max_seq_length, options, facts)
        self.prefixes = options.prefixes
        self.given_out = options.given_out
        # Options of predict and export do not change the facts.
        self.prompts = options.prompting.with_defaults(
            self.facts.prompts, self.facts.prompt
        )
        self._dev_examples = options.dev_examples or options.train_examples
        is_scored = self._dev_examples == data.SCORED
        self.key_metric = "spearmanr" if is_scored else "mrr"
        learnt = options.train_examples
        if learnt in (data.PAIRS, data.TRIPLETS):
            self.compares_by = f"train_examples={learnt}"
        if learnt == data.TRIPLETS:
            self.taught_by = "scores"  # Of a model that reads two texts.
        kinds = options.train_examples, self._dev_examples
        self.sequences_at_once = max(len(data.INPUTS[kind]) for kind in kinds)

    @classmethod
    def find_facts(cls, options: EmbeddingOptions, source: Any) -> VectorFacts:
        """Return what is given, else what a model of vectors says."""
        names = "text_pooling", "projection_size"
        requested = {name: getattr(options, name) for name in names}
        of_model = source.model_facts()
        resolved = {
            name: of_model.get(name) if value is None else value
            for name, value in requested.items()
        }
        given = options.prompting.with_defaults(
            of_model.get("prompts"), of_model.get("prompt")
        )
        return VectorFacts(
            text_pooling=resolved["text_pooling"] or "mean",
            projection_size=resolved["projection_size"] or 0,
            prompts=given.prompts if given.texts else None,
            prompt=given.prompt,
        )

    @classmethod
    def longest_of(cls, source: Any) -> int | None:
        longest: int | None = source.model_facts().get("max_seq_length")
        return longest

    @property
    def settings(self) -> dict[str, Any]:
        settings = {**super().settings, "max_score": self.options.max_score}
        before = self.prompts.before
        return settings | ({"prompt": before} if before else {})

    def check_config(self, hidden_size: int) -> None:
        width = self.facts.projection_size or hidden_size
        self.given_out.check(width)
        if self.prefixes and self.prefixes[-1] > width:
            raise errors.UserError(
                f"`prefix_dimensions={self.options.prefix_dimensions}` has "
                f"more numbers than a vector, {width}. Use at most that, or "
                "another `projection_size`."
            )

    def _kind(self, split: str) -> str:
        if split == base.TRAIN:
            return self.options.train_examples
        return self._dev_examples

    def read(self, path: str, split: str) -> list[TextExample]:
        items: Sequence[TextExample | rows.BadLine]
        if self._kind(split) == data.RETRIEVAL:
            items = retrieval.read(path)
        else:
            kind, has_scores = self._kind(split), split != base.TEST
            items = data.read(path, kind, has_scores=has_scores)
        examples = list(rows.raise_bad_lines(items))
        rows.require_examples(examples, path)
        if split == base.TRAIN:
            self._check_training(path, examples)
        elif (
            split == base.DEV and len({e.label for e in examples} - {None}) == 1
        ):
            logging.warning(
                "%s: every score is %g, so no correlation with them is "
                "defined; it is given as 0.",
                path,
                examples[0].label,
            )
        return examples

    def _check_training(
        self, path: str, examples: Sequence[TextExample]
    ) -> None:
        most = self.options.max_score
        is_alone = len({example.texts for example in examples}) == 1
        if is_alone and self.options.train_examples == data.PAIRS:
            raise errors.UserError(
                f"{path} has one pair only, with no other to tell it from. "
                "Give a file with more."
            )
        for number, example in enumerate(examples, 1):
            if example.label is not None and abs(example.label) > most:
                raise errors.UserError(
                    f"`max_score={most}` allows scores from {-most:g} to "
                    f"{most:g}; that of example {number} in {path} is "
                    f"{example.label:g}. Give the score of texts that mean the "
                    "same."
                )

    def for_teacher(self, examples: Sequence[TextExample]) -> list[TextExample]:
        return [
            TextExample(one.guid, (one.teacher_text,))
            if isinstance(one, data.TaughtExample)
            else one
            for one in examples
        ]

    def read_own(self, path: str) -> list[TextExample | rows.BadLine]:
        return data.read(path, data.TEXTS)

    def layout(self, split: str) -> layouts.Layout:
        if split == base.PREDICT:
            return texts_layout(self.max_seq_length)
        kind = self._kind(split)
        return texts_layout(
            self.max_seq_length,
            len(data.INPUTS[kind]),
            has_score=kind == data.SCORED,
        )

    def pieces(
        self, examples: Sequence[TextExample]
    ) -> list[tuple[TextExample, Sequence[int], Sequence[int]]]:
        texts = [(group, text) for group in examples for text in group.texts]
        prompts.warn(self.prompts, "Name one as `prompt`.")
        encoded = self.tokenizer.encode_batch(
            [self.prompts.before + text for _, text in texts]
        )
        pairs = zip(texts, encoded, strict=True)
        return [(group, ids, ()) for (group, _), ids in pairs]

    def label_ids(self, examples: Sequence[TextExample]) -> np.ndarray:
        """Return scores divided by `max_score`; 0 where there is none."""
        scores = np.array([one.label or 0.0 for one in examples], np.float32)
        return scores / np.float32(self.options.max_score)

    def score(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> dict[str, float]:
        """Return metrics of the cosines, or of the ranks.

        Returns:
            Of scored pairs `spearmanr` and `pearson`. Of others `mrr`, the mean
            of 1 / rank of the right text among all second texts of the file
            (and third ones), `recall_at_1` and `recall_at_10`; of triplets
            `accuracy` too: whether the right text is closer than the wrong one.
            Of RETRIEVAL see `retrieval.score`. Of prefixes `KEY_METRIC_SIZE`.
            All but the last are those of vectors as they are given out.
        """
        vectors = np.asarray(outputs["embedding"], np.float64)
        scores = self._score(self.given_out.rounded(vectors), examples)
        for size in self.prefixes:
            prefixes = packed_vectors.VectorOptions(size).rounded(vectors)
            part = self._score(prefixes, examples)
            scores[f"{self.key_metric}_{size}"] = part[self.key_metric]
        return scores

    def _score(
        self, vectors: np.ndarray, examples: Sequence[TextExample]
    ) -> dict[str, float]:
        if self._dev_examples == data.RETRIEVAL:
            flat = vectors.reshape(len(examples), -1)
            return retrieval.score(flat, _entries(examples))
        cosines = _cosines(vectors)
        if self._dev_examples == data.SCORED:
            expected = np.array([example.label for example in examples])
            names = "spearmanr", "pearson"
            return metrics.score(names, cosines[:, 0], expected)
        places = ranks(vectors, [example.texts for example in examples])
        scores = retrieval.of_ranks(list(places[:, None]))
        if self._dev_examples == data.TRIPLETS:
            scores["accuracy"] = float((cosines[:, 0] > cosines[:, 1]).mean())
        return scores

    def answers(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> Iterator[dict[str, Any]]:
        """Yield the `embedding` of a text, or the cosine as `prediction`.

        For queries it is the ids of the nearest texts.
        """
        packed = self.given_out.pack(outputs["embedding"])
        vectors = packed_vectors.unpack(packed)
        if entries := _entries(examples):
            flat = np.reshape(vectors, [len(examples), -1])
            yield from retrieval.answers(flat, entries)
            return
        for n, (example, vector) in enumerate(
            zip(examples, vectors, strict=True)
        ):
            key = rows.key_of(example.guid)
            if vector.ndim == 1:
                yield {**key, "embedding": packed[n].tolist()}
            else:
                yield {**key, "prediction": float(_cosines(vector[None])[0, 0])}

    def combine(self, runs: Sequence[base.Outputs]) -> base.Outputs:
        """Join the vectors; so their cosine is the mean of the cosines."""
        # Prefixes, and what is given out, are of a single run.
        self.prefixes, self.given_out = (), packed_vectors.WHOLE
        round_ = self.options.given_out.rounded
        vectors = [round_(outputs["embedding"]) for outputs in runs]
        joined = np.concatenate(vectors, -1) / np.sqrt(len(runs))
        return {"embedding": joined}

    # An export gives one text its vector.

    def asked(self, examples: Sequence[TextExample]) -> list[TextExample]:
        return [
            TextExample(text, (text,))
            for example in examples
            for text in example.texts
        ]

    def score_outputs(
        self, outputs: base.Outputs, examples: Sequence[TextExample]
    ) -> dict[str, float]:
        vectors = packed_vectors.unpack(np.asarray(outputs["embedding"]))
        shape = len(examples), -1, vectors.shape[-1]
        vectors = vectors.reshape(shape)
        if self.given_out == packed_vectors.WHOLE:
            return self.score({"embedding": vectors}, examples)
        return self._score(vectors, examples)  # Cut and rounded already.

    def texts(self, examples: Sequence[TextExample]) -> dict[str, Any]:
        return {"text": [example.texts[0] for example in examples]}

    def score_answers(
        self, answers: base.SignatureAnswers, examples: Sequence[TextExample]
    ) -> dict[str, float]:
        vectors = base.concatenate(answers, "embedding")
        return self.score_outputs({"embedding": vectors}, examples)


def texts_layout(
    max_seq_length: int, num_texts: int = 1, *, has_score: bool = False
) -> layouts.Layout:
    """Return the features of texts of which each is a sequence of its own.

    Returns:
        `input_ids`, `input_mask`, `segment_ids` [num_texts, S], of one text
        [S], padded with 0; `label_ids` scalar, a number, if there is a score;
        `is_real_example` scalar.
    """
    texts = (num_texts,) if num_texts > 1 else ()
    score = (layouts.Feature("label_ids", (), "float32"),) if has_score else ()
    return (*layouts.sequences((*texts, max_seq_length)), *score, layouts.REAL)


def _entries(examples: Sequence[TextExample]) -> list[retrieval.Entry]:
    """Return the examples if they are those of RETRIEVAL, else none."""
    return [one for one in examples if isinstance(one, retrieval.Entry)]


def _cosines(vectors: np.ndarray) -> np.ndarray:
    """Return those of the first text with each other one, [n, texts - 1]."""
    return np.asarray((vectors[:, :1] * vectors[:, 1:]).sum(-1))


def ranks(vectors: np.ndarray, texts: Sequence[tuple[str, ...]]) -> np.ndarray:
    """Return the rank of each example's second text for its first, from 1.

    It stands among all that are no first texts, each counted once, but for the
    first text itself and the second texts of equal first ones. Of equal cosines
    the rank is the mean.

    Args:
        vectors: float [n, texts, width], of length 1.
        texts: n of them, by which the same text is known.
    """
    numbers: dict[str, int] = {}
    candidates = []
    right: dict[str, list[int]] = {}  # Of each first text.
    for row, group in zip(vectors, texts, strict=True):
        for vector, text in zip(row[1:], group[1:], strict=True):
            if text not in numbers:
                numbers[text] = len(numbers)
                candidates.append(vector)
        right.setdefault(group[0], []).append(numbers[group[1]])
    places = []
    rows = retrieval.cosines(vectors[:, 0], np.stack(candidates))
    for row, (first, second, *_) in zip(rows, texts, strict=True):
        cosine = row[numbers[second]]
        row[right[first]] = -np.inf
        if first in numbers:
            row[numbers[first]] = -np.inf
        row[numbers[second]] = cosine
        places.append(retrieval.places(row, [numbers[second]])[0])
    return np.array(places)


TASK = EmbeddingTask
