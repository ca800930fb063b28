"""Prompts: texts that are put before a text, such as "query: ", by their names.

As in sentence-transformers, the tokenizer cuts a prompt with its text, and both
count in the pooling.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from absl import logging

from albert_tf.common import errors, strict_json
from albert_tf.common.options import checked, option


@dataclasses.dataclass(frozen=True)
@checked
class PromptOptions:
    """The prompts of a model, and the one of texts for which none is named."""

    prompts: str | None = option(
        None,
        'What may be put before texts, by name: {"query": "query: ", '
        '"passage": "passage: "}. Default: as the run or the '
        "sentence-transformers folder of --init_checkpoint; {}: nothing.",
    )
    prompt: str | None = option(
        None,
        "The name of the prompt of all texts; empty: none. Default: as the run "
        "or the folder.",
    )

    def __post_init__(self) -> None:
        texts = self.texts
        if self.prompts is not None and self.prompt:
            errors.require_known("prompt", [self.prompt], texts)

    @functools.cached_property
    def texts(self) -> dict[str, str]:
        """The prompts by name."""
        try:
            texts = strict_json.loads(self.prompts or "{}")
        except strict_json.JsonError:
            texts = None
        is_object = isinstance(texts, dict) and "" not in texts
        if not is_object or not all(isinstance(t, str) for t in texts.values()):
            raise errors.UserError(
                f"`prompts={self.prompts}` is no JSON object of names and "
                'texts, such as {"query": "query: "}. Correct it.'
            )
        return dict(texts)

    @property
    def before(self) -> str:
        """What is put before texts for which no prompt is named."""
        return self.texts[self.prompt] if self.prompt else ""

    def with_defaults(
        self, prompts: str | None, prompt: str | None
    ) -> "PromptOptions":
        """Return these, or the others where nothing is given."""
        if self.prompts is not None:
            return self
        chosen = prompt if self.prompt is None else self.prompt
        return PromptOptions(prompts or "{}", chosen)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PromptOptions":
        """Undo `to_dict`; where all prompts are empty there are none."""
        texts = values.get("prompts") or {}
        if isinstance(texts, dict):  # An empty one may be null.
            texts = {k: "" if v is None else v for k, v in texts.items()}
            if not any(texts.values()):
                return NONE
        name = values.get("default_prompt_name") or None
        return cls(strict_json.dumps(texts), name)

    def to_dict(self) -> dict[str, Any]:
        """Return the keys of sentence-transformers; {} if nothing is put."""
        if not self.texts:
            return {}
        name = self.prompt or None
        return {"prompts": self.texts, "default_prompt_name": name}


NONE = PromptOptions()


@functools.cache  # Says it once.
def warn(given: PromptOptions, advice: str) -> None:
    """Warn if nothing says which of the prompts is put before texts."""
    if given.texts and given.prompt is None:
        logging.warning(
            "The model has the prompts %s, and texts are read without one. %s",
            ", ".join(given.texts),
            advice,
        )


def warn_of_names(values: Mapping[str, Any]) -> None:
    """Warn of a line that names its prompt where no prompt is read."""
    if "prompt" in values:
        _say_unread()


@functools.cache  # Says it once.
def _say_unread() -> None:
    logging.warning(
        "Lines have a `prompt`, which is not read: only the signature "
        "`prompted` of a SavedModel, and answer.py, take one for each text."
    )
