"""Replaced-token detection: a generator, and an encoder that finds its words.

The generator, a small masked LM, proposes a piece for each masked position. The
encoder reads the text with these pieces and tells, at every token, whether it
was replaced. After pretraining the encoder is kept, the generator is not.

Source: ELECTRA, Clark et al., arXiv 2003.10555, sections 2 and 3.2.
"""

import dataclasses
import functools
from collections.abc import Mapping

import tensorflow as tf
import tf_keras as keras

from albert_tf.model import (
    fused_ops,
    layers,
    model_inputs,
    model_options,
    modeling,
    objectives,
)
from albert_tf.model.heads import pretraining

# First part of the names of the variables of a generator that is a network of
# its own.
GENERATOR = "generator"
# Scope of the head that tells whether tokens were replaced.
HEAD = "cls/replaced_tokens"

# Separates the generator's dropout from the rest.
_GENERATOR_STREAM = 2**29


def shrink(config: modeling.AlbertConfig, size: float) -> modeling.AlbertConfig:
    """Return the architecture of a smaller encoder, for a generator.

    Args:
        config: Of the encoder.
        size: Heads of the generator as a share of the encoder's, in (0, 1],
            rounded to whole heads; with position_bias=alibi to pairs, because
            the two heads of a pair look in opposite directions. The width and
            that of the feed-forward part shrink as much; the size of a head,
            the layers and the embeddings stay.
    """
    all_heads = config.num_attention_heads
    step = 2 if config.position_bias == "alibi" else 1
    heads = max(step, step * round(size * all_heads / step))
    return dataclasses.replace(
        config,
        num_attention_heads=heads,
        hidden_size=heads * config.hidden_size // all_heads,
        intermediate_size=max(1, heads * config.intermediate_size // all_heads),
    )


@keras.saving.register_keras_serializable(package="albert_tf")
class ReplacedTokenDetector(pretraining.SentenceHead):
    """An encoder with the head that finds replaced tokens, and its generator.

    `call` runs the encoder. The objective runs the generator before it.

    Attributes:
        generator: A masked LM.
    """

    input_keys = (*model_inputs.ENCODER, "cls_positions")

    def __init__(
        self,
        encoder: modeling.AlbertModel,
        generator_config: modeling.AlbertConfig,
        generator_sharing: str = "embeddings",
        sentence_order: bool = True,
    ):
        """Add a head and a generator, with new variables, to an encoder.

        Args:
            encoder: A finished encoder; its weights are trained along.
            generator_config: Architecture of the generator, see `shrink`.
            generator_sharing: One of `model_options.GENERATOR_SHARING`. With
                all, the encoder itself is the generator, and `generator_config`
                must be its own.
            sentence_order: Whether the encoder also predicts the order of
                sentences (not in ELECTRA).

        Raises:
            ValueError: Different architectures cannot share what they are to
                share.
        """
        super().__init__(encoder, "replaced_token_detector")
        self.generator_config = generator_config
        self.generator_sharing = generator_sharing
        config, width = encoder.config, encoder.config.hidden_size
        self.transform = layers.Dense(
            f"{HEAD}/transform/dense", width, width, config
        )
        self.output_weights = self.add_weight(
            name=f"{HEAD}/output_weights",
            shape=[width],
            initializer=layers.truncated_normal(config.initializer_range),
        )
        self.output_bias = self.add_weight(
            name=f"{HEAD}/output_bias", shape=[], initializer="zeros"
        )
        self._add_sentence_order(sentence_order)
        self.generator = self._make_generator()

    def _make_generator(self) -> pretraining.AlbertPretrainer:
        encoder = self.encoder
        if self.generator_sharing == "all":
            if self.generator_config != encoder.config:
                raise ValueError("Different architectures cannot share all.")
            return pretraining.AlbertPretrainer(encoder, sentence_order=False)
        small = modeling.AlbertModel(
            self.generator_config,
            GENERATOR,
            precision=encoder.precision,
            recompute=encoder.recompute,
            loop_layers=encoder.loop_layers,
        )
        if self.generator_sharing == "embeddings":
            width = self.generator_config.embedding_width
            if width != encoder.config.embedding_width:
                raise ValueError("Embeddings of different widths.")
            small.embeddings = encoder.embeddings
        return pretraining.AlbertPretrainer(
            small, sentence_order=False, scope=f"{GENERATOR}/cls"
        )

    def call_head(
        self,
        outputs: Mapping[str, tf.Tensor],
        inputs: Mapping[str, tf.Tensor],
        dropout: layers.Dropout,
    ) -> dict[str, tf.Tensor]:
        """Return the logits of both heads.

        Args:
            outputs: Of the encoder.
            inputs: Of the encoder; `cls_positions` as in `AlbertPretrainer`.
            dropout: Not used.

        Returns:
            `replaced_token_logits` float32 [B, S], above 0 where the token was
            more likely replaced; padding has values, too. With a sentence-order
            head also `sentence_order_logits`, as in `AlbertPretrainer`.
        """
        first = None
        if "cls_positions" in inputs:
            first = tf.gather(
                outputs["sequence_output"],
                inputs["cls_positions"],
                batch_dims=1,
            )
        x = self.transform(outputs["sequence_output"])
        activation = fused_ops.PLAIN.activation(self.encoder.config.hidden_act)
        x = tf.cast(activation(x), tf.float32)
        logits = tf.linalg.matvec(x, self.output_weights) + self.output_bias
        return {
            "replaced_token_logits": logits,
            **self._sentence_outputs(outputs["pooled_output"], first),
        }


def make_objective(
    sentence_objective: str = "sop",
    masked_lm_factor: float = 1.0,
    sentence_factor: float = 1.0,
    replaced_token_factor: float = 50.0,
) -> objectives.Objective:
    """Return the objective that `ReplacedTokenDetector` is trained for.

    `masked_lm_loss` and `masked_lm_accuracy` are the generator's;
    `replaced_token_loss` and `replaced_token_accuracy` the encoder's, over all
    real tokens. `replaced_token_share` is the share of tokens that were
    replaced: an encoder that calls every token original has an accuracy of 1
    minus the share.

    Args:
        sentence_objective: See `pretraining.make_objective`.
        masked_lm_factor: Factor of the generator's loss.
        sentence_factor: Factor of the sentence loss.
        replaced_token_factor: Factor of the encoder's loss. Source: ELECTRA
            appendix A, λ.
    """
    masked = pretraining.make_objective(
        sentence_objective, masked_lm_factor, sentence_factor
    )
    sentence = model_options.SENTENCE_OBJECTIVES[sentence_objective]
    return objectives.Objective(
        losses={**masked.losses, "replaced_token_loss": replaced_token_factor},
        metrics=(
            *masked.metrics,
            "replaced_token_accuracy",
            "replaced_token_share",
        ),
        sample_weights=functools.partial(_sample_weights, masked),
        sample_values=functools.partial(_sample_values, sentence),
        epsilons=masked.epsilons,
    )


def _sample_weights(
    masked: objectives.Objective, batch: objectives.Batch
) -> objectives.Tensors:
    real = objectives.real_examples(batch)[:, None]  # [B, 1]
    # Rows of several instances have their numbers, 0 for padding.
    tokens = batch.get("instance_ids", batch.get("input_mask")) > 0
    tokens = tf.cast(tokens, tf.float32) * real  # [B, S]
    names = "loss", "accuracy", "share"
    return masked.sample_weights(batch) | {
        f"replaced_token_{name}": tokens for name in names
    }


def _sample_values(
    sentence: str,
    model: ReplacedTokenDetector,
    batch: objectives.Batch,
    dropout_seed: tf.Tensor | None,
) -> objectives.Tensors:
    """Run the generator, put its words into the text, and run the encoder."""
    batch = pretraining.with_attention_mask(batch)
    generator_seed = None
    if dropout_seed is not None:
        generator_seed = layers.derive_seed(dropout_seed, _GENERATOR_STREAM)
    proposed = objectives.outputs(model.generator, batch, generator_seed)
    word_logits = proposed["masked_lm_logits"]  # [B, P, V]
    found = pretraining.loss_and_accuracy(
        "masked_lm", word_logits, batch["masked_lm_ids"]
    )
    ids, replaced = _replace(batch, word_logits)
    outputs = objectives.outputs(
        model, {**batch, "input_ids": ids}, dropout_seed
    )
    labels = tf.cast(replaced, tf.float32)
    logits = outputs["replaced_token_logits"]  # [B, S]
    found |= {
        "replaced_token_loss": tf.nn.sigmoid_cross_entropy_with_logits(
            labels, logits
        ),
        "replaced_token_accuracy": tf.cast(
            (logits > 0) == replaced, tf.float32
        ),
        "replaced_token_share": labels,
    }
    return found | pretraining.sentence_values(sentence, outputs, batch)


def _replace(
    batch: objectives.Batch, logits: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Put the generator's pieces into a text.

    No gradient flows through this choice (ELECTRA §2). In evaluation it follows
    from the text alone, in training from the seed, too.

    Args:
        batch: Masked text, and what was masked.
        logits: Of the generator, float32 [B, P, V].

    Returns:
        Ids int32 [B, S], and bool [B, S]: where they are not the original ones.
    """
    numbers = _uniform(
        batch.get(model_inputs.SEED, tf.constant([0, 0])),
        batch["input_ids"],
        batch["masked_lm_positions"],
    )
    chosen = _sample(tf.stop_gradient(logits), numbers)
    put = functools.partial(
        _put,
        batch["input_ids"],
        batch["masked_lm_positions"],
        batch["masked_lm_weights"] > 0,
    )
    ids, originals = put(chosen), put(batch["masked_lm_ids"])
    return ids, ids != originals


def _put(
    ids: tf.Tensor, positions: tf.Tensor, is_real: tf.Tensor, values: tf.Tensor
) -> tf.Tensor:
    """Return ids [B, S] with the values [B, P] at their positions."""
    length = tf.shape(ids)[1]
    # Padding of the positions goes to a column of its own, which is cut off.
    columns = tf.where(is_real, positions, length)
    rows = tf.range(tf.shape(ids)[0])[:, None] + tf.zeros_like(columns)
    wider = tf.pad(ids, [[0, 0], [0, 1]])
    places = tf.stack([rows, columns], -1)
    return tf.tensor_scatter_nd_update(wider, places, values)[:, :length]


def _sample(logits: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
    """Draw from softmax(logits): [B, P, V] and uniform [B, P] to int32 [B, P].

    The first class up to which the probabilities add up to more than the
    number.
    """
    total = tf.cumsum(tf.nn.softmax(logits), -1)
    wanted = numbers[..., None] * total[..., -1:]
    passed = tf.reduce_sum(tf.cast(total <= wanted, tf.int32), -1)
    return tf.minimum(passed, tf.shape(logits)[-1] - 1)


def _uniform(
    seed: tf.Tensor, ids: tf.Tensor, positions: tf.Tensor
) -> tf.Tensor:
    """Return a number in [0, 1) for each position of each text, float32 [B, P].

    It follows from seed, text and position alone, so that it does not depend on
    how examples are divided into batches. Bits are mixed as in MurmurHash3.

    Args:
        seed: int32 [2].
        ids: int32 [B, S].
        positions: int32 [B, P].
    """
    places = tf.range(tf.shape(ids)[1])
    words = _mix(tf.cast(ids, tf.uint32) + _mix(tf.cast(places, tf.uint32)))
    text = tf.reduce_sum(tf.cast(words, tf.int64), 1, keepdims=True)
    low = tf.bitwise.bitwise_and(text, 0xFFFFFFFF)
    key = _mix(tf.cast(low, tf.uint32) + tf.cast(seed[0], tf.uint32))
    key = _mix(key + tf.cast(seed[1], tf.uint32))  # [B, 1]
    bits = _mix(key + _mix(tf.cast(positions, tf.uint32)))
    # 24 bits, so that float32 holds them exactly.
    top = tf.cast(tf.bitwise.right_shift(bits, 8), tf.float32)
    return top * 2.0**-24


def _mix(x: tf.Tensor) -> tf.Tensor:
    """Mix the bits of each number, uint32 [...].

    A permutation in which each input bit changes about half of the output bits.
    """
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, shift))
        x *= tf.constant(factor, tf.uint32)
    return x
