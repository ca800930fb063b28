"""The ALBERT encoder: configuration, embeddings, shared layers, pooler.

Every variable carries the name that it has in the original release
(`bert/encoder/transformer/group_0/inner_group_0/attention_1/self/query/kernel`),
so released checkpoints are restored by name and the optimizer's exclusion rules
mean what they mean there. Variables exist as soon as a model is constructed.

Dimensions in comments and einsum strings:
    B batch, S sequence (attending), T sequence (attended to), E embedding,
    H hidden, I intermediate, N heads, D size of one head, V vocabulary.
"""

import dataclasses
import difflib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras as keras

from albert_tf import (
    elementwise,
    errors,
    files,
    huggingface_config,
    ranges,
    strict_json,
)

# Added to the scores of padded keys. Finite, so that a row without any real key
# still gives numbers. Original release, modeling.attention.
MASKED_SCORE = -10000.0

# What the encoder computes in; variables are float32 always.
PRECISIONS = ("float32", "bfloat16", "float16")

ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    # The original's is the tanh form; the exact one differs by up to 5e-4.
    "gelu": elementwise.PLAIN.gelu,
    # What Hugging Face calls "gelu"; the original does not have it.
    "gelu_erf": lambda x: tf.nn.gelu(x, approximate=False),
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "linear": tf.identity,
}

# What all layers of a group share. Source: ALBERT §4.5.
SHARING = ("all", "attention", "ffn", "none")

# The strings that each text key may hold.
_CHOICES = {"hidden_act": tuple(ACTIVATIONS), "share": SHARING}

# The numbers that each key may hold; the paper's largest model has 64 heads,
# 4,096 columns and 24 layers.
_RANGES = {
    "vocab_size": ranges.Range(1, ranges.MOST_PIECES),
    "embedding_size": ranges.Range(1, 2**14),
    "hidden_size": ranges.Range(1, 2**14),
    "num_hidden_layers": ranges.Range(1, 1000),
    "num_hidden_groups": ranges.Range(1, 1000),
    "inner_group_num": ranges.Range(1, 100),
    "num_attention_heads": ranges.Range(1, 2**14),
    "intermediate_size": ranges.Range(1, 2**16),
    "hidden_dropout_prob": ranges.DROPOUT,
    "attention_probs_dropout_prob": ranges.DROPOUT,
    "max_position_embeddings": ranges.TOKENS,
    "type_vocab_size": ranges.TOKENS,
    "initializer_range": ranges.Range(0, below=1),
}

# Keys that the original does not have.
_OWN_KEYS = ("share", "float_group_index")

# Keys of released config files that no released code reads.
HISTORIC_KEYS = (
    "down_scale_factor",
    "gap_size",
    "layers_to_keep",
    "net_structure_type",
    "num_memory_blocks",
)


@dataclasses.dataclass(frozen=True)
class AlbertConfig:
    """The shape of an ALBERT encoder, with the original's JSON keys.

    Source: ALBERT Table 1; in the original, modeling.AlbertConfig, whose
    defaults (those of xxlarge) are kept.

    Attributes:
        vocab_size: Number of pieces V.
        embedding_size: Width E of the embedding tables.
        hidden_size: Width H of the encoder.
        num_hidden_layers: Layers applied in a row.
        num_hidden_groups: Groups of layers; the layers of a group share
            parameters, see `share`. 1 shares over all layers.
        inner_group_num: Attention and feed-forward blocks inside one layer,
            each with its own parameters.
        num_attention_heads: Heads N; each has H / N columns.
        intermediate_size: Width I of the feed-forward part.
        hidden_act: Activation of the feed-forward part and of the masked-word
            head: gelu (tanh form), gelu_erf, relu, tanh or linear.
        hidden_dropout_prob: Dropout after embeddings, attention output and
            feed-forward output, a probability in [0, 1).
        attention_probs_dropout_prob: Dropout of attention probabilities.
        max_position_embeddings: Longest sequence, in tokens.
        type_vocab_size: Number of segment ids.
        initializer_range: Standard deviation of the truncated normal that
            kernels and tables start from.
        share: What the layers of a group share: all, attention (with its
            norm), ffn (with its norm) or none. Not in the original, whose
            files mean `all`.
        float_group_index: Choose the group of a layer by the original's
            arithmetic, see `group_of_layer`.

    Raises:
        errors.UserError: A value is out of range or two values do not fit.
    """

    vocab_size: int
    embedding_size: int = 128
    hidden_size: int = 4096
    num_hidden_layers: int = 12
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    num_attention_heads: int = 64
    intermediate_size: int = 16384
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    share: str = "all"
    float_group_index: bool = False

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_value(field.name, field.type, getattr(self, field.name))
        if self.hidden_size % self.num_attention_heads:
            raise errors.UserError(
                f"hidden_size={self.hidden_size} is not a multiple of "
                f"num_attention_heads={self.num_attention_heads}. Every head "
                "takes an equal share of the columns; change one of the two."
            )
        if self.num_hidden_groups > self.num_hidden_layers:
            raise errors.UserError(
                f"num_hidden_groups={self.num_hidden_groups} is more than "
                f"num_hidden_layers={self.num_hidden_layers}. Some groups "
                "would never be used; use at most one group per layer."
            )
        if self.share == "none" and self.num_hidden_groups not in (
            1,
            self.num_hidden_layers,
        ):
            raise errors.UserError(
                f"share='none' and num_hidden_groups={self.num_hidden_groups} "
                "contradict each other: nothing is shared inside a group. Drop "
                "one of the two keys."
            )

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], source: str = "the config"
    ) -> "AlbertConfig":
        """Build a config from JSON keys.

        Args:
            values: The object of an `albert_config.json`.
            source: Where it came from, for messages.

        Raises:
            errors.UserError: A key is unknown or missing, or a value is wrong.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for key in values:
            if key not in known and key not in HISTORIC_KEYS:
                close = difflib.get_close_matches(key, known, 1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise errors.UserError(
                    f"Unknown key {key!r} in {source}.{hint} Allowed are "
                    f"{', '.join(known)}; the historic keys "
                    f"{', '.join(HISTORIC_KEYS)} are accepted and ignored."
                )
        if "vocab_size" not in values:
            raise errors.UserError(
                f"The key 'vocab_size' is missing in {source}. Add the number "
                "of pieces of your vocabulary."
            )
        try:
            return cls(**{key: values[key] for key in values if key in known})
        except errors.UserError as error:
            raise errors.UserError(f"In {source}: {error}") from None

    @classmethod
    def from_json_file(cls, path: str) -> "AlbertConfig":
        """Read an `albert_config.json`, or a `config.json` of Hugging Face.

        Raises:
            errors.UserError: The file is missing, is not a JSON object, or has
                keys or values that are not allowed.
        """
        values = strict_json.read_object(
            files.require_file(path, "albert_config_file"),
            'Such a file looks like {"vocab_size": 30000}; those of the '
            "released models are in configs/models.",
            f"--albert_config_file={path}",
        )
        if huggingface_config.describes_albert(values):
            values = huggingface_config.translate(values, path)
        return cls.from_dict(values, path)

    def to_json(self) -> str:
        """Return the config as JSON: sorted keys, two-space indent.

        Keys that the original does not have are left out at their defaults.
        """
        values = dataclasses.asdict(self)
        for field in dataclasses.fields(self):
            if field.name in _OWN_KEYS and values[field.name] == field.default:
                del values[field.name]
        return strict_json.dumps(values, indent=2, sort_keys=True) + "\n"

    def group_of_layer(self, layer: int) -> int:
        """Return the group of layers that layer `layer` belongs to.

        DIFFERS: integer arithmetic, unless `float_group_index` is set. The
        original divides in floating point and falls one group short for some
        depths, such as layer 15 of 22 groups in 22 layers.

        Source: original release, modeling.transformer_model.
        """
        groups, layers = self.num_hidden_groups, self.num_hidden_layers
        if self.float_group_index:
            return int(layer / layers * groups)
        return layer * groups // layers

    def attention_of_layer(self, layer: int) -> int:
        """Return the number of the attention parameters that a layer uses."""
        shared = self.share in ("all", "attention")
        return self.group_of_layer(layer) if shared else layer

    def ffn_of_layer(self, layer: int) -> int:
        """Return the number of the feed-forward parameters a layer uses."""
        shared = self.share in ("all", "ffn")
        return self.group_of_layer(layer) if shared else layer

    @property
    def groups(self) -> list[tuple[int, int]]:
        """Attention and feed-forward parameters that each layer uses."""
        return [
            (self.attention_of_layer(layer), self.ffn_of_layer(layer))
            for layer in range(self.num_hidden_layers)
        ]

    def forward_flops(self, length: int, predictions: int) -> float:
        """Return the operations of all matrix products for one sequence.

        A training step does three times as many. Additions and multiplications
        count one each; what is not a matrix product is left out.

        Args:
            length: Tokens.
            predictions: Positions that the masked-word head looks at; 0 if
                there is no such head.
        """
        width, narrow = self.hidden_size, self.embedding_size
        dense = 4 * width**2 + 2 * width * self.intermediate_size
        block = 2 * length * (dense + 2 * length * width)
        mapping = 2 * length * narrow * width if narrow != width else 0
        head = 2 * predictions * narrow * (width + self.vocab_size)
        blocks = self.num_hidden_layers * self.inner_group_num
        return float(blocks * block + mapping + head)

    @property
    def sharing(self) -> str:
        """What is shared, in words."""
        across = f"{self.num_hidden_layers} layers in {self.num_hidden_groups}"
        what = {"all": "all", "attention": "attention", "ffn": "feed-forward"}
        if self.share == "none" or self.num_hidden_groups == (
            self.num_hidden_layers
        ):
            return f"{self.num_hidden_layers} layers that share nothing"
        return f"{across} group(s) that share {what[self.share]} parameters"


def _check_value(key: str, kind: Any, value: Any) -> None:
    """Refuse a config value of the wrong type or out of its range."""
    if kind is str:
        if value not in list(_CHOICES[key]):
            raise errors.UserError(
                f"{key}={value!r} is not known. Allowed are "
                f"{', '.join(_CHOICES[key])}."
            )
        return
    if kind is bool:
        if not isinstance(value, bool):
            raise errors.UserError(f"{key}={value!r} is not true or false.")
        return
    complaint = _RANGES[key].complaint(value, whole=kind is int)
    if complaint:
        raise errors.UserError(f"{key}={value!r} {complaint}")


def derive_seed(seed: tf.Tensor | None, stream: int) -> tf.Tensor:
    """Return a seed, int32 [2], for one use among many.

    Args:
        seed: int32 [2]; None draws one from TensorFlow's global generator.
        stream: Number of the use.
    """
    if seed is None:
        seed = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
    return tf.random.experimental.stateless_fold_in(seed, stream)


class Dropout:
    """Stateless dropout for one forward pass, or one block of it.

    Every use gets a seed of its own, derived from the seed of the pass and the
    number of the use, so the same seed repeats the same pass, also after a
    restart, and nothing has to be stored in a checkpoint.

    Args:
        seed: int32 [2]; None switches dropout off.
    """

    def __init__(self, seed: tf.Tensor | None):
        self._seed = seed
        self._uses = 0

    def __call__(self, x: tf.Tensor, rate: float) -> tf.Tensor:
        """Drop entries with probability `rate` and scale up the others."""
        if self._seed is None or rate == 0:
            return x
        self._uses += 1
        seed = derive_seed(self._seed, self._uses)
        return tf.nn.experimental.stateless_dropout(x, rate, seed)


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Return the initializer of kernels and tables; a new one for every use."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


def _constant_variable(value: tf.Tensor) -> tf.Variable:
    """Return a variable that no optimizer is meant to see."""
    return tf.Variable(value, trainable=False)


def linear(
    x: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    activation: Callable[[tf.Tensor], tf.Tensor] = tf.identity,
) -> tf.Tensor:
    """Return activation(x @ kernel + bias), in the dtype of x.

    Args:
        x: float [..., inputs].
        kernel: float [inputs, units].
        bias: float [units].
        activation: Applied to each entry.
    """
    inputs, units = kernel.shape
    # One product of two matrices: what processors are fastest at. TensorFlow
    # fuses bias and GELU into it where they follow at once.
    rows = tf.matmul(tf.reshape(x, [-1, inputs]), tf.cast(kernel, x.dtype))
    rows = activation(tf.nn.bias_add(rows, tf.cast(bias, x.dtype)))
    return tf.reshape(rows, tf.concat([tf.shape(x)[:-1], [units]], 0))


class Dense(keras.layers.Layer):
    """A linear layer over the last axis, in the dtype of its input.

    Its variables are `SCOPE/kernel` [inputs, units] and `SCOPE/bias` [units].
    """

    def __init__(
        self, scope: str, inputs: int, units: int, config: AlbertConfig
    ):
        """Create the variables.

        Args:
            scope: Path of the layer in the original's checkpoints.
            inputs: Size of the last axis of its input.
            units: Size of the last axis of its output.
            config: Gives the initializer.
        """
        super().__init__(name=scope.rsplit("/", 1)[-1], autocast=False)
        self.kernel = self.add_weight(
            name=f"{scope}/kernel",
            shape=[inputs, units],
            initializer=truncated_normal(config.initializer_range),
        )
        self.bias = self.add_weight(
            name=f"{scope}/bias", shape=[units], initializer="zeros"
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Transform float [..., inputs] to [..., units]."""
        return linear(x, self.kernel, self.bias)


class LayerNorm(keras.layers.Layer):
    """Layer normalization over the last axis.

    Epsilon and variable names, `SCOPE/beta` and `SCOPE/gamma`, are those of the
    original.

    Source: original release, modeling.layer_norm.
    """

    def __init__(self, scope: str, size: int):
        super().__init__(name=scope.rsplit("/", 1)[-1], autocast=False)
        self.beta = self.add_weight(
            name=f"{scope}/beta", shape=[size], initializer="zeros"
        )
        self.gamma = self.add_weight(
            name=f"{scope}/gamma", shape=[size], initializer="ones"
        )

    def call(
        self,
        x: tf.Tensor,
        how: elementwise.Elementwise = elementwise.PLAIN,
    ) -> tf.Tensor:
        """Normalize float [..., size], in float32."""
        return how.layer_norm(x, self.gamma, self.beta)


class Embeddings(keras.layers.Layer):
    """Sum of word, segment and position embeddings, normalized, [B, S, E].

    Source: ALBERT §3.1, factorized embedding; in the original,
    modeling.embedding_lookup and modeling.embedding_postprocessor.
    """

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__(name="embeddings")
        self._config = config
        self.word_embeddings = self._table(
            f"{scope}/word_embeddings", config.vocab_size
        )
        self.token_type_embeddings = self._table(
            f"{scope}/token_type_embeddings", config.type_vocab_size
        )
        self.position_embeddings = self._table(
            f"{scope}/position_embeddings", config.max_position_embeddings
        )
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm", config.embedding_size)

    def _table(self, name: str, rows: int) -> tf.Variable:
        return self.add_weight(
            name=name,
            shape=[rows, self._config.embedding_size],
            initializer=truncated_normal(self._config.initializer_range),
        )

    def freeze(self, dtype: tf.DType) -> None:
        """See `AlbertModel.freeze`; only the words' table is large."""
        table = tf.cast(self.word_embeddings, dtype)
        self.word_embeddings = _constant_variable(table)

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        dropout: Dropout,
        how: elementwise.Elementwise,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return (word embeddings alone, the finished sum), both [B, S, E]."""
        length = tf.shape(inputs["input_ids"])[1]
        words = tf.gather(self.word_embeddings, inputs["input_ids"])
        words = tf.cast(words, tf.float32)
        # Rows, not a product with one-hot vectors: how the gradient is clipped
        # depends on it, see training.Trainer.
        x = words + tf.gather(self.token_type_embeddings, inputs["segment_ids"])
        x += self.position_embeddings[:length]
        x = self.layer_norm(x, how)
        return words, dropout(x, self._config.hidden_dropout_prob)


class Block(NamedTuple):
    """How to go through one block, beside its weights.

    Attributes:
        config: Shape of the encoder.
        score_bias: float32 [B, 1, 1, T], added to the attention scores.
        dropout: The dropout of this block.
        how: How to compute what is not a matrix product.
    """

    config: AlbertConfig
    score_bias: tf.Tensor
    dropout: Dropout
    how: elementwise.Elementwise


class Weights(NamedTuple):
    """Weights of one half of a block, ready for use.

    Attributes:
        kernel: [H, 3 H] or [H, I]. Attention: for queries, divided by the
            square root of the size of a head, keys and values at once.
        bias: [3 H] or [I].
        output_kernel: [H, H] or [I, H].
        output_bias: [H].
        gamma: float32 [H].
        beta: float32 [H].
    """

    kernel: tf.Tensor
    bias: tf.Tensor
    output_kernel: tf.Tensor
    output_bias: tf.Tensor
    gamma: tf.Tensor
    beta: tf.Tensor


def _prepare(
    kernels: Sequence[tf.Tensor],
    biases: Sequence[tf.Tensor],
    output: Dense,
    norm: LayerNorm,
    dtype: tf.DType,
) -> Weights:
    """Convert weights once; put side by side what is used at once."""
    return Weights(
        tf.concat([tf.cast(kernel, dtype) for kernel in kernels], 1),
        tf.concat([tf.cast(bias, dtype) for bias in biases], 0),
        tf.cast(output.kernel, dtype),
        tf.cast(output.bias, dtype),
        tf.convert_to_tensor(norm.gamma),
        tf.convert_to_tensor(norm.beta),
    )


class Attention(keras.layers.Layer):
    """The variables of a self-attention with its norm.

    Layers that share parameters use the same object.
    """

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__(name="attention_1", autocast=False)
        width = config.hidden_size
        self._scale = (width // config.num_attention_heads) ** -0.5
        inner = f"{scope}/attention_1"
        # Three kernels, not one: LAMB scales the step of each by its own norm.
        self.query = Dense(f"{inner}/self/query", width, width, config)
        self.key = Dense(f"{inner}/self/key", width, width, config)
        self.value = Dense(f"{inner}/self/value", width, width, config)
        self.output_dense = Dense(f"{inner}/output/dense", width, width, config)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm", width)
        self.frozen: Weights | None = None

    def prepare(self, dtype: tf.DType) -> Weights:
        """Return the weights for one pass through all layers.

        Those of the query are scaled, so that nothing larger has to be.
        """
        if self.frozen:
            return Weights(*map(tf.convert_to_tensor, self.frozen))
        others = self.key, self.value
        kernels = [self.query.kernel * self._scale, *(o.kernel for o in others)]
        biases = [self.query.bias * self._scale, *(o.bias for o in others)]
        return _prepare(
            kernels, biases, self.output_dense, self.layer_norm, dtype
        )


def attend(x: tf.Tensor, weights: Weights, block: Block) -> tf.Tensor:
    """Self-attention, residual and norm, [B, S, H] to [B, S, H].

    Post-norm, as BERT.

    Source: original release, modeling.attention_ffn_block, first half.
    """
    config = block.config
    heads = config.num_attention_heads
    size = config.hidden_size // heads
    projected = linear(x, weights.kernel, weights.bias)
    split = tf.concat([tf.shape(x)[:2], [3, heads, size]], 0)
    # Three times [B, N, S, D].
    query, key, value = tf.unstack(
        tf.transpose(tf.reshape(projected, split), [2, 0, 3, 1, 4])
    )
    scores = tf.matmul(query, key, transpose_b=True)
    probabilities = block.dropout(
        block.how.softmax(scores, block.score_bias),
        config.attention_probs_dropout_prob,
    )
    context = tf.transpose(tf.matmul(probabilities, value), [0, 2, 1, 3])
    attended = linear(
        tf.reshape(context, tf.shape(x)),
        weights.output_kernel,
        weights.output_bias,
    )
    attended = block.dropout(attended, config.hidden_dropout_prob)
    return block.how.layer_norm(x + attended, weights.gamma, weights.beta)


class FeedForward(keras.layers.Layer):
    """The variables of two dense layers with their norm."""

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__(name="ffn_1", autocast=False)
        width, inner = config.hidden_size, config.intermediate_size
        path = f"{scope}/ffn_1/intermediate"
        self.intermediate = Dense(f"{path}/dense", width, inner, config)
        self.output_dense = Dense(f"{path}/output/dense", inner, width, config)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm_1", width)
        self.frozen: Weights | None = None

    def prepare(self, dtype: tf.DType) -> Weights:
        """Return the weights for one pass through all layers."""
        if self.frozen:
            return Weights(*map(tf.convert_to_tensor, self.frozen))
        return _prepare(
            [self.intermediate.kernel],
            [self.intermediate.bias],
            self.output_dense,
            self.layer_norm,
            dtype,
        )


def feed_forward(x: tf.Tensor, weights: Weights, block: Block) -> tf.Tensor:
    """Transform every position of [B, S, H] by itself; residual and norm.

    Source: original release, modeling.attention_ffn_block, second half.
    """
    config = block.config
    activation = ACTIVATIONS[config.hidden_act]
    if config.hidden_act == "gelu":
        activation = block.how.gelu
    hidden = linear(x, weights.kernel, weights.bias, activation)
    hidden = linear(hidden, weights.output_kernel, weights.output_bias)
    hidden = block.dropout(hidden, config.hidden_dropout_prob)
    return block.how.layer_norm(x + hidden, weights.gamma, weights.beta)


class AlbertModel(keras.Model):
    """The ALBERT encoder.

    Example:
        config = AlbertConfig.from_json_file("albert_config.json")
        encoder = AlbertModel(config)
        outputs = encoder(dict(input_ids=ids))   # ids: int32 [batch, seq_len]
        outputs["pooled_output"]                 # float32 [batch, hidden]

    Source: ALBERT §3.1; in the original, modeling.AlbertModel.
    """

    def __init__(
        self,
        config: AlbertConfig,
        scope: str = "bert",
        *,
        precision: str = "float32",
        recompute: bool = False,
    ):
        """Create the encoder and all its variables, in float32.

        Args:
            config: Shape of the encoder.
            scope: First part of every variable name.
            precision: What is computed in: one of `PRECISIONS`. Norms and
                softmax are in float32 always.
            recompute: Whether training keeps only what goes into each block,
                and computes the block again for its gradient: less memory, a
                third more time (Chen et al., arXiv 1604.06174).
        """
        super().__init__(name=scope)
        self.config = config
        self.precision = precision
        self._recompute = recompute
        self._how = elementwise.PLAIN  # Unless it is trained.
        width = config.hidden_size
        self.embeddings = Embeddings(config, f"{scope}/embeddings")
        self.embedding_mapping = None
        if config.embedding_size != width:
            self.embedding_mapping = Dense(
                f"{scope}/encoder/embedding_hidden_mapping_in",
                config.embedding_size,
                width,
                config,
            )
        # By group number and inner block; empty for a number without a user.
        self.attentions: list[list[Attention]] = []
        self.feed_forwards: list[list[FeedForward]] = []
        attentions, feed_forwards = map(set, zip(*config.groups, strict=True))
        for group in range(max(attentions | feed_forwards) + 1):
            paths = [
                f"{scope}/encoder/transformer/group_{group}/inner_group_{inner}"
                for inner in range(config.inner_group_num)
            ]
            self.attentions.append(
                [Attention(config, p) for p in paths if group in attentions]
            )
            self.feed_forwards.append(
                [
                    FeedForward(config, p)
                    for p in paths
                    if group in feed_forwards
                ]
            )
        self.pooler = Dense(f"{scope}/pooler/dense", width, width, config)

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Encode a batch of sequences.

        Args:
            inputs: `input_ids` int32 [B, S]; optionally `input_mask` int32
                [B, S], 1 for real tokens and 0 for padding (default: all real),
                and `segment_ids` int32 [B, S] (default: all 0). Padding
                positions get values too; nothing attends to them.
            training: Whether to apply dropout.
            dropout_seed: int32 [2]; the same seed gives the same dropout. By
                default one is drawn from TensorFlow's global generator.

        Returns:
            `word_embedding_output` and `embedding_output` float32 [B, S, E];
            `all_encoder_layers`, a list of float [B, S, H] with one entry for
            each inner block of each layer; `sequence_output`, its last entry;
            `pooled_output` float32 [B, H]. Those of the encoder's layers are of
            its `precision`.

        Raises:
            errors.UserError: The sequence is longer than the position table
                (only for shapes that are known when the graph is built; others
                fail inside TensorFlow).
        """
        inputs = self._complete(inputs)
        how = elementwise.FUSED if training else self._how
        seed = derive_seed(dropout_seed, 0) if training else None

        words, x = self.embeddings(inputs, Dropout(seed), how)
        embedding_output = x
        x = tf.cast(x, self.precision)
        if self.embedding_mapping is not None:
            x = self.embedding_mapping(x)

        # Not [:, None, None, :]: LiteRT has no operation for that.
        mask = tf.expand_dims(tf.expand_dims(inputs["input_mask"], 1), 1)
        mask = tf.cast(mask, tf.float32)
        score_bias = (1.0 - mask) * MASKED_SCORE  # [B, 1, 1, T]
        layers: list[tf.Tensor] = []
        for attention, ffn in self._prepare_blocks(x.dtype):
            if seed is not None:
                seed = derive_seed(seed, 1)
            block = self._make_block(score_bias, seed, how)
            if training and self._recompute:
                block = tf.recompute_grad(block)
            x = block(x, *attention, *ffn)
            layers.append(x)
        pooled = tf.cast(self.pooler(x[:, 0]), tf.float32)
        return {
            "word_embedding_output": words,
            "embedding_output": embedding_output,
            "all_encoder_layers": layers,
            "sequence_output": x,
            "pooled_output": tf.tanh(pooled),
        }

    def _make_block(
        self,
        score_bias: tf.Tensor,
        seed: tf.Tensor | None,
        how: elementwise.Elementwise,
    ) -> Callable[..., tf.Tensor]:
        """Return a block as a function of everything that has a gradient."""
        split = len(Weights._fields)

        def block(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
            # A dropout of its own, so that a second run draws the same.
            shared = Block(self.config, score_bias, Dropout(seed), how)
            x = attend(x, Weights(*weights[:split]), shared)
            return feed_forward(x, Weights(*weights[split:]), shared)

        return block

    def _prepare_blocks(self, dtype: tf.DType) -> list[tuple[Weights, Weights]]:
        """Return the weights of all blocks in a row, each converted once."""
        attentions = [[a.prepare(dtype) for a in g] for g in self.attentions]
        ffns = [[f.prepare(dtype) for f in g] for g in self.feed_forwards]
        return [
            pair
            for group, ffn_group in self.config.groups
            for pair in zip(attentions[group], ffns[ffn_group], strict=True)
        ]

    def freeze(self) -> None:
        """Convert the weights to the encoder's precision for good.

        For serving: they take less room, and are not converted in every pass.
        The encoder can neither be trained nor restored afterwards.
        """
        dtype = tf.as_dtype(self.precision)
        groups: list[list[Any]] = [*self.attentions, *self.feed_forwards]
        for half in itertools.chain.from_iterable(groups):
            half.frozen = Weights(*map(_constant_variable, half.prepare(dtype)))
        self.embeddings.freeze(dtype)
        self._how = elementwise.SERVED

    def _complete(
        self, inputs: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        ids = tf.convert_to_tensor(inputs["input_ids"])
        longest = self.config.max_position_embeddings
        if ids.shape[1] is not None and ids.shape[1] > longest:
            raise errors.UserError(
                f"input_ids are {ids.shape[1]} tokens long, but the position "
                f"table has {longest} rows. Cut the input, or use a config "
                "with more max_position_embeddings."
            )
        return {
            "input_ids": ids,
            "input_mask": inputs.get("input_mask", tf.ones_like(ids)),
            "segment_ids": inputs.get("segment_ids", tf.zeros_like(ids)),
        }
