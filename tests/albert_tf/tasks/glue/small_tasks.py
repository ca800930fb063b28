"""A task of GLUE with markers for a tokenizer; its files."""

import dataclasses

from albert_tf.finetuning import base
from albert_tf.tasks.glue import task as glue


@dataclasses.dataclass(frozen=True)
class Markers:
    """All that `pack` asks of a tokenizer."""

    cls_id: int = 2
    sep_id: int = 3


def make(name, tokenizer=None, max_seq_length=32, kind=glue.GlueTask):
    options = base.NameOptions(name)
    return kind(tokenizer or Markers(), max_seq_length, options)


def write(folder, content, name="RTE/dev.tsv"):
    """Write a file of a task; returns the data folder as an option's value."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        content if isinstance(content, bytes) else content.encode("utf-8")
    )
    return str(folder)
