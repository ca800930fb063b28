"""Time one pretraining step of this project and of others.

    python -m lab.benchmarks.pretraining_step --torch_python=venv/bin/python

Every implementation runs in its own process. They compute a step in turn, for
several rounds; medians are printed as a Markdown table for each shape. A step
is forward, backward, clipping to norm 1 and update, on one batch without
padding and without dropout, with the masked-word head on the predicted
positions only. All processes exist at the same time: the eight of the default
need about 18 GiB at base size, so select fewer on a small machine.

albert_tf: its train_step.TrainStep, with accuracies and the check for
non-finite numbers. LAMB, as model_garden.
model_garden: AlbertEncoder in BertPretrainerV2.
hugging_face: its modules, with the positions gathered before its head; AdamW.
_bfloat16: mixed precision. _compiled: XLA, or torch.compile.

On a busy machine the ratio of CPU seconds, the last column, varies less than
that of seconds, but ignores idle CPU time.

This file is both the parent and the worker processes. Hugging Face's may run in
another interpreter without this project's packages, so none of them is imported
here, and argparse reads the options.
"""

import argparse
import math
from collections.abc import Callable
from typing import Any

from lab.benchmarks import side_by_side
from lab.benchmarks.side_by_side import Config, Shape

WARM_UP_STEPS = 2  # The first one compiles.
LEARNING_RATE = 1e-4
# Of the other implementations; ours are in model/optimizers/optimization.py.
WEIGHT_DECAY = 0.01
CLIP_NORM = 1.0

Step = Callable[[], float]  # Trains one step and returns the loss before it.


def count_predictions(length: int) -> int:
    """Return the predicted positions of a sequence: 20 at 128, 77 at 512."""
    return math.ceil(0.15 * length)


# Implementations. Each imports what it needs in its own process. --------------


def make_batch(config: Config, shape: Shape) -> dict[str, Any]:
    """Return a random batch of NumPy arrays, the same for all."""
    import numpy as np

    random = np.random.default_rng(0)
    ids = (shape.batch, shape.length)
    predictions = count_predictions(shape.length)
    masked = (shape.batch, predictions)
    places = [
        np.sort(random.choice(shape.length, predictions, replace=False))
        for _ in range(shape.batch)
    ]
    words = config["vocab_size"]
    integers = {
        "input_ids": random.integers(5, words, ids),
        "input_mask": np.ones(ids),
        "segment_ids": np.arange(shape.length) * 2 // shape.length
        + np.zeros(ids),
        "masked_lm_positions": np.array(places),
        "masked_lm_ids": random.integers(5, words, masked),
        "next_sentence_labels": random.integers(0, 2, (shape.batch, 1)),
        "is_real_example": np.ones(shape.batch),
    }
    batch = {name: value.astype(np.int32) for name, value in integers.items()}
    return {**batch, "masked_lm_weights": np.ones(masked, np.float32)}


def build_albert_tf(
    config: Config, shape: Shape, precision: str, compiled: bool
) -> Step:
    """Make the step of this project, with the imports of a command."""
    from albert_tf.common import imports

    imports.import_tensorflow_alone()
    import tensorflow as tf

    from albert_tf.model.config import AlbertConfig
    from albert_tf.model.network.encoder import AlbertModel

    batch = {k: tf.constant(v) for k, v in make_batch(config, shape).items()}
    encoder = AlbertModel(AlbertConfig(**config), precision=precision)
    update, num_losses = side_by_side.make_pretraining_update(
        encoder, precision
    )

    @tf.function(jit_compile=compiled, autograph=False)
    def step() -> tf.Tensor:
        losses = update(batch)[:num_losses]
        return tf.reduce_sum(losses[:, 0] / losses[:, 1])

    return lambda: float(step())


def make_model_garden(config: Config, precision: str) -> Any:
    """Make the model of Model Garden's pretraining task."""
    import tf_keras as keras
    from official.modeling import activations
    from official.nlp.modeling import layers, models, networks

    if precision == "bfloat16":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    encoder = networks.AlbertEncoder(
        vocab_size=config["vocab_size"],
        embedding_width=config["embedding_size"],
        hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_attention_heads=config["num_attention_heads"],
        max_sequence_length=config["max_position_embeddings"],
        type_vocab_size=config["type_vocab_size"],
        intermediate_size=config["intermediate_size"],
        activation=activations.gelu,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        dict_outputs=True,
    )
    order_head = layers.ClassificationHead(
        config["hidden_size"], num_classes=2, name="next_sentence"
    )
    return models.BertPretrainerV2(
        encoder,
        mlm_activation=activations.gelu,
        classification_heads=[order_head],
    )


def build_model_garden(
    config: Config, shape: Shape, precision: str, compiled: bool
) -> Step:
    """Make the step of Model Garden, composed as in its task."""
    import tensorflow as tf
    from official.nlp import optimization

    model = make_model_garden(config, precision)
    optimizer = optimization.LAMB(
        LEARNING_RATE,
        weight_decay_rate=WEIGHT_DECAY,
        exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"],
    )
    batch = {k: tf.constant(v) for k, v in make_batch(config, shape).items()}
    inputs = {
        "input_word_ids": batch["input_ids"],
        "input_mask": batch["input_mask"],
        "input_type_ids": batch["segment_ids"],
        "masked_lm_positions": batch["masked_lm_positions"],
    }
    model(inputs)  # Creates the variables.

    def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels, tf.cast(logits, tf.float32)
        )
        return tf.reduce_mean(losses)

    @tf.function(jit_compile=compiled)
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            loss = cross_entropy(batch["masked_lm_ids"], outputs["mlm_logits"])
            loss += cross_entropy(
                batch["next_sentence_labels"][:, 0], outputs["next_sentence"]
            )
        variables = model.trainable_variables
        pairs = zip(tape.gradient(loss, variables), variables, strict=True)
        # The encoder's own pooler goes unused.
        gradients, used = zip(
            *(pair for pair in pairs if pair[0] is not None), strict=True
        )
        gradients, _ = tf.clip_by_global_norm(gradients, CLIP_NORM)
        optimizer.apply_gradients(zip(gradients, used, strict=True))
        return loss

    return lambda: float(step())


def build_hugging_face(
    config: Config, shape: Shape, precision: str, compiled: bool
) -> Step:
    """Make the step of Hugging Face's modules, head on gathered positions."""
    import torch
    import transformers

    model = transformers.AlbertForPreTraining(
        side_by_side.make_hugging_face_config(config)
    ).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY
    )
    batch = {
        name: torch.from_numpy(value).long()
        for name, value in make_batch(config, shape).items()
    }
    rows = torch.arange(shape.batch)[:, None]
    cross_entropy = torch.nn.functional.cross_entropy

    def forward() -> torch.Tensor:
        outputs = model.albert(
            input_ids=batch["input_ids"],
            attention_mask=batch["input_mask"],
            token_type_ids=batch["segment_ids"],
        )
        masked = outputs.last_hidden_state[rows, batch["masked_lm_positions"]]
        words = model.predictions(masked).float()
        order = model.sop_classifier(outputs.pooler_output).float()
        loss = cross_entropy(
            words.flatten(0, 1), batch["masked_lm_ids"].flatten()
        )
        return loss + cross_entropy(order, batch["next_sentence_labels"][:, 0])

    if compiled:
        forward = torch.compile(forward)

    def step() -> float:
        optimizer.zero_grad()
        with torch.autocast(
            "cpu", torch.bfloat16, enabled=precision == "bfloat16"
        ):
            loss = forward()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        return loss.item()

    return step


BUILDERS: dict[str, Callable[[Config, Shape, str, bool], Step]] = {
    "albert_tf": build_albert_tf,
    "model_garden": build_model_garden,
    "hugging_face": build_hugging_face,
}
NAMES = [
    f"{builder}_{precision}{compiled}"
    for builder in BUILDERS
    for compiled in ("", "_compiled")
    for precision in side_by_side.PRECISIONS
]
# On a CPU, XLA over the whole step gains nothing; such steps are measured only
# if named.
DEFAULT_NAMES = [
    name
    for name in NAMES
    if name.startswith("hugging_face") or "compiled" not in name
]


def build(settings: argparse.Namespace) -> tuple[side_by_side.Turn, str]:
    """Make the step of one implementation."""
    builder, precision, compiled = side_by_side.parse_name(settings.serve)
    config = side_by_side.read_config(settings.albert_config_file)
    (shape,) = settings.shapes
    step = BUILDERS[builder](config, shape, precision, compiled)
    losses = [step() for _ in range(WARM_UP_STEPS)]

    def turn() -> float:
        step()
        return shape.batch

    return turn, " ".join(["first losses", *(f"{x:.2f}" for x in losses)])


def main() -> None:
    """Compare, or, in a process of an implementation, work."""
    parser = side_by_side.make_parser(
        __doc__, DEFAULT_NAMES, "model_garden_float32", rounds=5
    )
    add = parser.add_argument
    add(
        "--shapes",
        type=side_by_side.parse_shapes,
        default="128x8,512x2",
        help="Sequence length x batch. Default: %(default)s",
    )
    add(
        "--albert_config_file",
        default=str(side_by_side.BASE_CONFIG),
        help="The model; its dropout must be 0. Default: base.",
    )
    settings = side_by_side.parse(parser, NAMES, build)
    config = side_by_side.read_config(settings.albert_config_file)
    if config["hidden_dropout_prob"] or config["attention_probs_dropout_prob"]:
        parser.error(f"{settings.albert_config_file}: dropout is not 0.")
    for shape in settings.shapes:
        print(
            f"Length {shape.length}, batch {shape.batch}, "
            f"{count_predictions(shape.length)} predictions"
        )
        side_by_side.compare(
            "lab.benchmarks.pretraining_step",
            settings,
            "sequences",
            f"--shapes={shape}",
        )


if __name__ == "__main__":
    main()
