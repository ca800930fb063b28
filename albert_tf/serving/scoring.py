"""The scores of an export, asked as users ask it, and of the model itself."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.finetuning import (
    base,
    batches,
    embedding,
    multi_label,
    probabilities,
    race,
    tagging,
    tagging_data,
)
from albert_tf.finetuning.glue import glue, glue_data
from albert_tf.finetuning.squad import squad

Inputs = Mapping[str, Any]
Ask = Callable[[Inputs], Mapping[str, np.ndarray]]

_BATCH_SIZE = 32
# Large, and no task looks at them.
_LEFT_OUT = ("sequence_output", "pooled_output")


def by_ids(
    ask: Ask,
    names: Sequence[str],
    task: base.Task,
    examples: Sequence[base.Example],
) -> dict[str, float]:
    def ask_batch(batch: Inputs) -> base.Outputs:
        outputs = ask({name: batch[name] for name in names})
        return {k: v for k, v in outputs.items() if k not in _LEFT_OUT}

    def ask_all(some: Sequence[base.Example]) -> base.Outputs:
        # Some formats have a fixed length.
        return batches.ask(
            ask_batch, task, some, _BATCH_SIZE, task.max_seq_length
        )

    if isinstance(task, embedding.EmbeddingTask):
        return _score_vectors(ask_all, task, examples)
    outputs = task.of_examples(ask_all(examples), examples)
    if not isinstance(task, squad.SquadTask):
        return task.score(outputs, examples)
    # With the threshold that is exported, not the best one for the examples.
    unknown = [dataclasses.replace(e, answers=None) for e in examples]
    answers = task.answers(outputs, unknown)
    return task.score_texts([a["prediction"] for a in answers], examples)


def to_inputs(
    names: Sequence[str], task: base.Task, examples: Sequence[base.Example]
) -> Sequence[Inputs]:
    """Return examples as inputs of a signature of ids, without padding.

    Each is a text (or window) of its own, [1, length].
    """
    if isinstance(task, embedding.EmbeddingTask):
        examples = [
            glue_data.TextExample(text, (text,))
            for example in examples
            for text in example.texts
        ]
    found = []
    for batch, _ in batches.of_examples(task, examples, batch_size=1):
        length = batch["input_mask"].sum(-1).max()
        found.append({name: batch[name][..., :length] for name in names})
    return found


def _score_vectors(
    ask: Callable[[Sequence[base.Example]], base.Outputs],
    task: embedding.EmbeddingTask,
    examples: Sequence[glue_data.TextExample],
) -> dict[str, float]:
    vectors = []
    for texts in zip(*(e.texts for e in examples), strict=True):
        alone = [glue_data.TextExample(text, (text,)) for text in texts]
        vectors.append(ask(alone)["embedding"])
    return task.score({"embedding": np.stack(vectors, 1)}, examples)


def by_texts(
    ask: Ask, task: base.Task, examples: Sequence[base.Example]
) -> dict[str, float]:
    def ask_all(some: Sequence[base.Example]) -> base.Outputs:
        parts = []
        for start in range(0, len(some), _BATCH_SIZE):
            outputs = ask(_texts(task, some[start : start + _BATCH_SIZE]))
            parts.append({k: v for k, v in outputs.items() if k in _READ})
        return {
            k: np.concatenate([part[k] for part in parts]) for k in parts[0]
        }

    if isinstance(task, embedding.EmbeddingTask):
        return _score_vectors(ask_all, task, examples)
    if isinstance(task, tagging.TaggingTask):
        return _score_spans(ask, task, examples)
    found = ask_all(examples)
    if isinstance(task, squad.SquadTask):
        texts = [answer.decode() for answer in found["answer"]]
        return task.score_texts(texts, examples)
    if "score" in found:
        logits = found["score"][:, None]
    elif isinstance(task, multi_label.MultiLabelTask):
        logits = probabilities.logit(found["probabilities"])
    else:
        # A float32 of 0 may stand for a very small number.
        tiny = np.finfo(np.float32).tiny
        logits = np.log(np.maximum(found["probabilities"], tiny))
    return task.score({"logits": logits}, examples)


def _score_spans(
    ask: Ask,
    task: tagging.TaggingTask,
    examples: Sequence[tagging_data.TaggedText],
) -> dict[str, float]:
    tags = []
    for start in range(0, len(examples), _BATCH_SIZE):
        part = examples[start : start + _BATCH_SIZE]
        found = ask({"text": [example.text for example in part]})
        names = "span_start", "span_end", "span_label"
        for row, example in enumerate(part):
            count = found["num_spans"][row]
            starts, ends, labels = (found[n][row, :count] for n in names)
            spans = zip(starts, ends, map(bytes.decode, labels), strict=True)
            tagged, _ = tagging_data.with_spans(example, spans)
            ours = tagged.tags or ()
            if not task.has_entities:  # Tags have no prefixes.
                ours = tuple(tag.removeprefix("B-") for tag in ours)
            tags.append(ours)
    return task.score_tags(tags, examples)


_READ = ("answer", "score", "probabilities", "embedding")


def _texts(task: base.Task, examples: Sequence[base.Example]) -> Inputs:
    if isinstance(task, squad.SquadTask):
        return {
            "question": [example.text for example in examples],
            "context": [example.context for example in examples],
        }
    if isinstance(task, race.RaceTask):
        count = task.options.num_options
        return {
            "article": [example.article for example in examples],
            "question": [example.question for example in examples],
            "options": [
                [*example.options, *[""] * (count - len(example.options))]
                for example in examples
            ],
        }
    assert isinstance(task, glue.TextTask | embedding.EmbeddingTask)
    texts = {"text": [example.texts[0] for example in examples]}
    if task.has_pairs:
        texts["text_pair"] = [example.texts[1] for example in examples]
    return texts
