r"""Make one step in a process of its own, and print the most memory it took.

    python -m tests.albert_tf.training.one_step \
        '{"hidden_size": 256, "batch": 64, ...}'

Prints a JSON object with `peak`: bytes of memory that the process held at most
(VmHWM of Linux).
"""

import json
import sys
import tempfile

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.model import model_options, modeling
from albert_tf.model.heads import classification, question_answering
from albert_tf.model.optimizers import optimization
from albert_tf.training import (
    pretraining_options,
    pretraining_recipe,
    run_log,
    training_loop,
    training_options,
)

KEYS = tuple(modeling.AlbertConfig.__dataclass_fields__)


def recipe_of(case):
    """Return the options of pretraining."""
    told = {k: case[k] for k in ("objective", "generator_sharing") if k in case}
    return pretraining_options.RecipeOptions(**told)


def make(case):
    """Return how to make the model, what it is trained for, and a batch."""
    config = modeling.AlbertConfig(**{k: case[k] for k in KEYS if k in case})
    kind, batch, length = case["kind"], case["batch"], case["length"]
    computed = {
        "precision": case.get("precision", "float32"),
        "recompute": case.get("recompute", False),
    }
    draws = np.random.default_rng(1)
    shape = (batch, 4, length) if kind == "choice" else (batch, length)
    values = {
        "input_ids": draws.integers(0, config.vocab_size, shape),
        "input_mask": np.ones(shape),
        "segment_ids": np.zeros(shape),
        "is_real_example": np.ones(batch),
        "label_ids": np.zeros(batch),
    }
    if kind == "pretraining":
        recipe = recipe_of(case)
        places = (batch, case["predictions"])
        values |= {
            "masked_lm_positions": draws.integers(0, length, places),
            "masked_lm_ids": draws.integers(0, config.vocab_size, places),
            "masked_lm_weights": np.ones(places, np.float32),
            "next_sentence_labels": np.zeros((batch, 1)),
        }
        del values["label_ids"]
        return (
            lambda: pretraining_recipe.make_model(
                recipe, config, training_options.UpdateOptions(**computed)
            ),
            pretraining_recipe.make_objective(recipe),
            values,
        )
    if kind == "squad":
        values |= {
            "start_positions": np.ones(batch),
            "end_positions": np.ones(batch),
            "is_impossible": np.zeros(batch),
            "p_mask": np.zeros(shape, np.float32),
        }
        head = question_answering.AlbertSquadV2
        objective = question_answering.V2_OBJECTIVE
    elif kind == "choice":
        head = classification.AlbertMultipleChoice
        objective = classification.OBJECTIVE
    else:
        head = classification.AlbertClassifier
        objective = classification.OBJECTIVE
    arguments = [3] if kind == "classifier" else []
    return (
        lambda: head(modeling.AlbertModel(config, **computed), *arguments),
        objective,
        values,
    )


def strategy(replicas):
    """Return one device, or logical CPUs."""
    if replicas == 1:
        return tf.distribute.OneDeviceStrategy("/CPU:0")
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * replicas
    tf.config.set_logical_device_configuration(cpu, logical)
    names = [f"CPU:{number}" for number in range(replicas)]
    return tf.distribute.MirroredStrategy(names)


def peak():
    """Return the most bytes of memory that this process has held."""
    with open("/proc/self/status") as lines:
        (kilobytes,) = [x.split()[1] for x in lines if x.startswith("VmHWM")]
    return int(kilobytes) * 1024


def main(case):
    """Train one step, or evaluate one batch."""
    devices = strategy(case.get("replicas", 1))  # Before any tensor.
    make_model, objective, values = make(case)
    batch = {
        name: tf.constant(value, tf.float32)
        if value.dtype == np.float32
        else tf.constant(value, tf.int32)
        for name, value in values.items()
    }
    options = model_options.OptimizerOptions(learning_rate=1e-3)
    with tempfile.TemporaryDirectory() as folder:
        trainer_options = training_options.TrainerOptions(
            gradient_accumulation_steps=case.get("microbatches", 1)
        )
        keras.utils.set_random_seed(trainer_options.seed)
        with devices.scope():
            model = make_model()
            optimizer = optimization.make_optimizer(options, 10, 0)
        trainer = training_loop.Trainer(
            model, optimizer, objective, folder, trainer_options
        )
        dataset = tf.data.Dataset.from_tensors(batch).repeat()
        if case.get("training", True):
            log = run_log.RunLog(folder, 1)
            log.start(0, 1)
            trainer.train(dataset, 1, log)
        else:
            trainer.evaluate(dataset.take(1))
    print(json.dumps({"peak": peak()}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
