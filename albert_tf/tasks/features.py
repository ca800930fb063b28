"""Feature files of finetuning tasks, made once and kept under a key."""

import hashlib
from collections.abc import Sequence

from absl import logging

from albert_tf import files, records, tokenization
from albert_tf.tasks import base


def cached(
    task: base.Task,
    examples: Sequence[base.Example],
    tokenizer: tokenization.AnyTokenizer,
    *,
    max_seq_length: int,
    path_prefix: str,
) -> str:
    """Return the TFRecord file of these examples; write it if it is not there.

    The name holds a key of everything the features follow from, so changed
    texts, another vocabulary or another length make another file.

    Args:
        task: Turns examples into features.
        examples: In the order of the file.
        tokenizer: The vocabulary.
        max_seq_length: Tokens per example.
        path_prefix: Folder and first part of the file's name.
    """
    key = hashlib.sha256()
    for part in (
        tokenizer.fingerprint,
        repr(tokenizer.settings),
        repr(task.layout(max_seq_length)),
        *map(repr, examples),
    ):
        key.update(part.encode("utf-8") + b"\0")
    path = f"{path_prefix}-{key.hexdigest()[:16]}.tfrecord"
    if files.exists(path):
        logging.info("Using the features of an earlier run: %s", path)
        return path
    layout = task.layout(max_seq_length)
    with records.ShardedWriter([path]) as writer:
        for values in task.featurize(examples, tokenizer, max_seq_length):
            writer.write(records.encode(layout, values))
    logging.info("Wrote %d examples to %s", len(examples), path)
    return path
