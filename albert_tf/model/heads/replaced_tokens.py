"""Replaced-token detection: a generator, and an encoder that finds its words.

The generator, a small masked LM, proposes a piece for each masked position. The
encoder reads the text with these pieces and tells, at every token, whether it
was replaced. After pretraining the encoder is kept, the generator is not.

Source: ELECTRA, Clark et al., arXiv 2003.10555, sections 2 and 3.2.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf
import tf_keras as keras

from albert_tf.common import errors
from albert_tf.model import model_inputs
from albert_tf.model.config import AlbertConfig
from albert_tf.model.execution import plain
from albert_tf.model.heads import pretraining, pretraining_tasks
from albert_tf.model.network import layers
from albert_tf.model.network.encoder import AlbertModel

# First part of the names of the variables of a generator that is a network of
# its own.
GENERATOR = "generator"
# Scope of the head that tells whether tokens were replaced.
HEAD = "cls/replaced_tokens"


def shrink(config: AlbertConfig, size: float) -> AlbertConfig:
    """Return the architecture of a smaller encoder, for a generator.

    Args:
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
class ReplacedTokenDetector(pretraining_tasks.ModelWithTasks):
    """An encoder with the head that finds replaced tokens, and its generator.

    `call` runs the encoder. The objective runs the generator, a masked LM,
    before it.
    """

    input_keys = (*model_inputs.ENCODER, "cls_positions")

    def __init__(
        self,
        encoder: AlbertModel,
        generator_config: AlbertConfig,
        generator_sharing: str = "embeddings",
        sentence_order: bool = True,
        tasks: Mapping[str, int] | None = None,
        token_tasks: Sequence[str] = (),
    ):
        """Add a head and a generator, with new variables, to an encoder.

        Args:
            generator_sharing: One of `model_options.GENERATOR_SHARING`. With
                all, the encoder itself is the generator, and `generator_config`
                must be its own.
            sentence_order: Whether the encoder also predicts the order of
                sentences (not in ELECTRA).
            tasks, token_tasks: As of `AlbertPretrainer`.
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
        self._add_tasks(sentence_order, tasks, token_tasks)
        self.generator = self._make_generator()

    def _make_generator(self) -> pretraining.AlbertPretrainer:
        encoder = self.encoder
        if self.generator_sharing == "all":
            if self.generator_config != encoder.config:
                raise ValueError("Different architectures cannot share all.")
            return pretraining.AlbertPretrainer(encoder, sentence_order=False)
        small = AlbertModel(
            self.generator_config,
            GENERATOR,
            precision=encoder.precision,
            recompute=encoder.recompute,
            loop_layers=encoder.loop_layers,
        )
        if self.generator_sharing == "embeddings":
            width = encoder.config.embedding_width
            small_width = self.generator_config.embedding_width
            if width != small_width:
                raise errors.UserError(
                    "`generator_sharing=embeddings` does not fit an "
                    "architecture with project_words_first, whose embeddings "
                    f"are {width} wide, and a generator of {small_width}. Use "
                    "`generator_sharing=none` or all, or `generator_size=1`."
                )
            small.embeddings = encoder.embeddings
        return pretraining.AlbertPretrainer(
            small, sentence_order=False, scope=f"{GENERATOR}/cls"
        )

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Return the logits of both heads.

        `replaced_token_logits` float32 [B, S] are above 0 where the token was
        more likely replaced; padding has values, too. `cls_positions`, and the
        logits of other heads, are as in `AlbertPretrainer`.
        """
        outputs = self.encode(inputs, training, dropout_seed)
        x, cls_vectors = outputs["sequence_output"], None
        if "cls_positions" in inputs:
            cls_vectors = tf.gather(x, inputs["cls_positions"], batch_dims=1)
        activation = plain.activation(self.encoder.config.hidden_act)
        x = tf.cast(activation(self.transform(x, training)), tf.float32)
        logits = tf.linalg.matvec(x, self.output_weights) + self.output_bias
        return {
            "replaced_token_logits": logits,
            **self._token_outputs(outputs["sequence_output"]),
            **self._sentence_outputs(
                outputs["pooled_output"], cls_vectors, training
            ),
        }
