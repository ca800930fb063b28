"""Trainings of a tiny model on made-up examples, for several test files."""

import numpy as np
import tensorflow as tf

from albert_tf.training import run_log

BATCH = 4
STEPS = 6


def make_examples(count):
    generator = np.random.default_rng(5)
    return {
        "input_ids": generator.integers(5, 400, [count, 8], np.int32),
        "input_mask": np.ones([count, 8], np.int32),
        "segment_ids": np.zeros([count, 8], np.int32),
        "masked_lm_positions": generator.integers(0, 8, [count, 2], np.int32),
        "masked_lm_ids": generator.integers(5, 400, [count, 2], np.int32),
        # Different numbers of predictions, so that a mean of means is wrong.
        "masked_lm_weights": generator.integers(0, 2, [count, 2]).astype("f4"),
        "next_sentence_labels": generator.integers(0, 2, [count, 1], np.int32),
        "is_real_example": np.ones([count], np.int32),
    }


EXAMPLES = make_examples(BATCH * STEPS)


def batches(first_step=0, examples=EXAMPLES):
    dataset = tf.data.Dataset.from_tensor_slices(examples).repeat()
    return dataset.batch(BATCH, drop_remainder=True).skip(first_step)


def padded(count, batch_size):
    """`count` examples in full batches, filled up with marked zeros."""
    rest = -count % batch_size
    filled = {
        name: np.concatenate([v[:count], np.zeros_like(v[:rest])])
        for name, v in EXAMPLES.items()
    }
    return tf.data.Dataset.from_tensor_slices(filled).batch(batch_size)


def train(trainer, steps, evaluate=None, key="loss", examples=EXAMPLES):
    """Train up to `steps`; returns the log."""
    return train_on(
        batches(trainer.step, examples), trainer, steps, evaluate, key
    )


def train_on(dataset, trainer, steps, evaluate=None, key="loss"):
    log = run_log.RunLog(trainer.output_dir, BATCH)
    log.start(trainer.step, steps)
    validation = evaluate and trainer.validation(log, evaluate, key)
    trainer.train(dataset, steps, log, validation)
    return log


def state(trainer):
    return [
        value.numpy()
        for value in [*trainer.model.variables, *trainer.optimizer.variables]
    ]
