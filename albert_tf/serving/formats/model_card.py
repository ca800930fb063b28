"""The model card of a Hugging Face folder, with metadata for the hub.

The run card is part of it, without the folders of the machine: model cards are
published.
"""

import functools
import math
import os
import re
from collections.abc import Mapping
from typing import Any

from albert_tf.common import scores, strict_json
from albert_tf.model.heads import head
from albert_tf.text import tokenization
from albert_tf.training import run_card

NAME = "README.md"
# Stands for the class where sentence-transformers is meant to be used.
SENTENCES = "SentenceTransformer"
# The hub's name of what each class of transformers does, after `Albert` or
# `Bert`.
_OF_CLASSES = {
    "ForPreTraining": "fill-mask",
    "ForMaskedLM": "fill-mask",
    "ForMultipleChoice": "multiple-choice",
    "Model": "feature-extraction",
}


@functools.cache
def pipelines() -> dict[str, str]:
    known = dict(_OF_CLASSES)
    for one in head.of_slices():
        known |= one.pipelines
    return {
        SENTENCES: "sentence-similarity",
        **{
            f"{n}{name}": known[name]
            for n in ("Albert", "Bert")
            for name in known
        },
    }


_FENCE = 3 * "-"  # Around the metadata.
# How each cuts a text that is too long.
_BY_PIPELINE = {
    "fill-mask": ', tokenizer_kwargs={"truncation": True}',
    "text-classification": ", truncation=True",
    "token-classification": "",  # It does so always.
    "feature-extraction": ", truncation=True",
}
# Of ForMultipleChoice.
_CHOICES = """tokens = tokenizer(
    [article] * len(options),
    [f"{question} {option}" for option in options],
    **{"truncation": "only_first", "padding": True, "return_tensors": "pt"},
)
model(**{name: value[None] for name, value in tokens.items()}).logits
```

An option stands in the gap of its question, `_`, where there is one; else after
the question.
"""
# A folder in front of a name, of this machine: not of a URL.
_FOLDERS = re.compile(r"(?<![\w./:~])~?/(?:[^\s/|,]+/)*(?=[^\s/|,])")


def text(
    folder: str,
    config: Mapping[str, Any],
    tokenizer: tokenization.AnyTokenizer,
    max_seq_length: int,
    run_dir: str | None = None,
) -> str:
    """Return the card; the last part of `folder` is the model's name."""
    name = os.path.basename(os.path.normpath(folder))
    architecture = config["architectures"][0]
    family = config["model_type"]
    article = "An" if family == "albert" else "A"
    results = scores.best_scores(run_dir) if run_dir else {}
    sections = [
        _header(name, family, pipelines()[architecture], results),
        f"# {name}\n",
        f"{article} {family.upper()} ({architecture}), written by albert_tf.\n",
        "## Use\n",
        _use(architecture),
        "## Text\n",
        _text_rules(tokenizer, max_seq_length),
    ]
    if run_dir:
        card = _FOLDERS.sub("", run_card.read_text(run_dir))
        sections.append(re.sub("^#", "##", card, flags=re.MULTILINE))
    return "\n".join(sections)


def _header(
    name: str, family: str, pipeline: str, results: Mapping[str, float]
) -> str:
    """Return the metadata as YAML, whose values are written as JSON."""
    is_sentences = pipeline == pipelines()[SENTENCES]
    library = "sentence-transformers" if is_sentences else "transformers"
    lines = [
        _FENCE,
        f"library_name: {library}",
        f"pipeline_tag: {pipeline}",
        f"tags: [{family}, albert_tf]",
        "# Not known here: license, language, datasets. Add them.",
    ]
    metrics = [
        {"type": metric, "value": value}
        for metric, value in results.items()
        if math.isfinite(value)
    ]
    if metrics:
        result = {
            "task": {"type": pipeline},
            "dataset": {"name": "development set", "type": "development"},
            "metrics": metrics,
        }
        index = [{"name": name, "results": [result]}]
        lines.append(f"model-index: {strict_json.dumps(index)}")
    return "\n".join([*lines, _FENCE]) + "\n"


def _use(architecture: str) -> str:
    pipeline = pipelines()[architecture]
    if pipeline in _BY_PIPELINE:
        example = "It is [MASK]." if pipeline == "fill-mask" else "It is here."
        code = (
            "import transformers\n\n"
            f'model = transformers.pipeline("{pipeline}", "THIS_FOLDER")\n'
            f'model("{example}"{_BY_PIPELINE[pipeline]})\n'
        )
    elif architecture == SENTENCES:
        code = (
            "from sentence_transformers import SentenceTransformer\n\n"
            'model = SentenceTransformer("THIS_FOLDER")\n'
            'model.encode(["It is here."])\n'
        )
    else:
        code = (
            f"from transformers import AutoTokenizer, {architecture}\n\n"
            'tokenizer = AutoTokenizer.from_pretrained("THIS_FOLDER")\n'
            f'model = {architecture}.from_pretrained("THIS_FOLDER")\n'
        )
    rest = _CHOICES if pipeline == "multiple-choice" else "```\n"
    return f"```python\n{code}{rest}"


def _text_rules(
    tokenizer: tokenization.AnyTokenizer, max_seq_length: int
) -> str:
    kind = "WordPiece"
    if isinstance(tokenizer, tokenization.Tokenizer):
        kind = "SentencePiece"
    rule = tokenizer.normalization
    case = "lower-cased" if rule.do_lower_case else "cased"
    accents = "kept" if rule.unicode_form in ("NFKC", "none") else "removed"
    return (
        f"{kind}, {tokenizer.vocab_size:,} pieces, {case}, accents "
        f"{accents}, at most {max_seq_length} tokens. `tokenizer.json` has "
        "these rules. Special pieces in a text are text, but `[MASK]` is a "
        "mask.\n"
    )
