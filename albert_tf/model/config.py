"""The configuration of an encoder: its keys, their checks, its files."""

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from albert_tf.common import configs, errors, files, ranges, strict_json
from albert_tf.model.checkpoints import config_files

# What the encoder computes in; variables are float32 always.
PRECISIONS = ("float32", "bfloat16", "float16")

# Activations by their names in config files. gelu is the tanh form, as in the
# original; gelu_erf is the exact one, which Hugging Face calls gelu. The two
# differ by up to 5e-4.
HIDDEN_ACTS = ("gelu", "gelu_erf", "relu", "tanh", "linear")

# What all layers of a group share. Source: ALBERT §4.5.
SHARING = ("all", "attention", "ffn", "none")

# How the tokens' vectors become one for the whole input; see
# `network.pooling`.
POOLINGS = ("cls", "pair")
# How they become the vector of one text, without a pooler.
TEXT_POOLINGS = ("mean", "cls", "max")

# What is added to attention scores for the distance of two tokens; see
# `network.attention_bias`.
POSITION_BIASES = ("none", "alibi", "relative", "buckets")

# The strings that each text key may hold.
_CHOICES = {
    "hidden_act": HIDDEN_ACTS,
    "share": SHARING,
    "pooling": POOLINGS,
    "position_bias": POSITION_BIASES,
}

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
    "layer_norm_eps": ranges.Range(above=0, high=0.1),
}

# Keys that the original does not have.
_OWN_KEYS = (
    "share",
    "float_group_index",
    "project_words_first",
    "map_equal_sizes",
    "pooling",
    "position_bias",
    "layer_norm_eps",
)

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
    defaults (those of xxlarge v2, without dropout) are kept.

    Attributes:
        vocab_size: Number of pieces V.
        embedding_size: Width E of the embedding tables.
        hidden_size: Width H of the encoder.
        num_hidden_layers: Layers applied in a row, where inner_group_num is 1.
        num_hidden_groups: Groups of layers; the layers of a group share
            parameters, see `share`. 1 shares over all layers.
        inner_group_num: Layers in the place of each, with parameters of their
            own; 1 in the paper.
        num_attention_heads: Heads N; each has H / N columns.
        intermediate_size: Width I of the feed-forward part.
        hidden_act: Activation of the feed-forward part and of the masked LM
            head, one of `HIDDEN_ACTS`.
        hidden_dropout_prob: Dropout after embeddings, attention output and
            feed-forward output.
        attention_probs_dropout_prob: Dropout of the attention probabilities.
        max_position_embeddings: Longest sequence, in tokens.
        type_vocab_size: Number of segment ids.
        initializer_range: Standard deviation of the truncated normal that
            kernels and tables start from.
        share: What the layers of a group share, one of `SHARING`; attention
            and ffn include the norm. The original's files mean `all`.
        float_group_index: Choose the group of a layer by the original's
            arithmetic, see `group_of_layer`.
        project_words_first: Project words to the hidden width, then add
            segments and positions and normalize, all in this width, as
            brightmart's albert_zh. The original adds and normalizes first.
        map_equal_sizes: Project embeddings to the hidden width also where both
            are equal, as transformers does. The original does not.
        pooling: One of `POOLINGS`; cls in the original.
        position_bias: One of `POSITION_BIASES`; none in the original. relative
            is XLNet's, buckets is T5's; both have weights of their own, see
            `network.relative` and `network.attention_bias`.
        layer_norm_eps: What norms add to the variance; 1e-12 in the original.
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
    project_words_first: bool = False
    map_equal_sizes: bool = False
    pooling: str = "cls"
    position_bias: str = "none"
    layer_norm_eps: float = 1e-12

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_value(field.name, field.type, getattr(self, field.name))
        if self.hidden_size % self.num_attention_heads:
            raise errors.UserError(
                f"hidden_size={self.hidden_size} is not a multiple of "
                f"num_attention_heads={self.num_attention_heads}. Every head "
                "takes an equal share of the columns; change one of the two."
            )
        if self.position_bias == "alibi" and self.num_attention_heads % 2:
            raise errors.UserError(
                f"num_attention_heads={self.num_attention_heads} is odd. With "
                "position_bias=alibi heads favour left and right in turn; give "
                "an even number."
            )
        if self.position_bias == "relative" and self.hidden_size % 2:
            raise errors.UserError(
                f"hidden_size={self.hidden_size} is odd. With "
                "position_bias=relative half of the columns are sines and half "
                "cosines; give an even number."
            )
        if self.num_hidden_groups > self.num_hidden_layers:
            raise errors.UserError(
                f"num_hidden_groups={self.num_hidden_groups} is more than "
                f"num_hidden_layers={self.num_hidden_layers}. Some groups "
                "would never be used; use at most one group per layer."
            )
        allowed = 1, self.num_hidden_layers
        if self.share == "none" and self.num_hidden_groups not in allowed:
            raise errors.UserError(
                f"share='none' and num_hidden_groups={self.num_hidden_groups} "
                "contradict each other: nothing is shared inside a group. Drop "
                "one of the two keys."
            )

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], source: str = "the config"
    ) -> "AlbertConfig":
        """Build a config from JSON keys; `source` is for messages."""
        keys = [field.name for field in dataclasses.fields(cls)]
        for key in values:
            if key not in keys and key not in HISTORIC_KEYS:
                close = difflib.get_close_matches(key, keys, 1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise errors.UserError(
                    f"Unknown key {key!r} in {source}.{hint} Allowed are "
                    f"{', '.join(keys)}; the historic keys "
                    f"{', '.join(HISTORIC_KEYS)} are accepted and ignored."
                )
        if "vocab_size" not in values:
            raise errors.UserError(
                f"The key 'vocab_size' is missing in {source}. Add the number "
                "of pieces of your vocabulary."
            )
        try:
            return cls(**{key: values[key] for key in values if key in keys})
        except errors.UserError as error:
            raise errors.UserError(f"In {source}: {error}") from None

    @classmethod
    def from_json_file(cls, path: str) -> "AlbertConfig":
        """Read a config file: ours, Hugging Face's, brightmart's or BERT's.

        Args:
            path: The file, or the name of a released model: `albert_base_v2`.
        """
        source = f"`albert_config_file={path}`"
        file = files.require_file(
            configs.find_model(path), "albert_config_file"
        )
        values = strict_json.read_object(
            file,
            'Such a file looks like {"vocab_size": 30000}; those of the '
            "released models are in configs/models.",
            source,
        )
        config: AlbertConfig = config_files.build(
            values, file, source, cls.from_dict
        )
        return config

    def to_json(self) -> str:
        """Return the config as JSON, without those of our keys at defaults."""
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

    @property
    def layer_groups(self) -> list[tuple[int, int]]:
        """Which attention and feed-forward parameters each layer uses.

        Example:
            Two layers: [(0, 0), (0, 0)] share all, [(0, 0), (0, 1)] attention
            only, [(0, 0), (1, 1)] nothing.
        """
        numbers = range(self.num_hidden_layers)
        groups = [self.group_of_layer(layer) for layer in numbers]
        attentions = groups if self.share in ("all", "attention") else numbers
        feed_forwards = groups if self.share in ("all", "ffn") else numbers
        return list(zip(attentions, feed_forwards, strict=True))

    def exits(self, listed: str | None) -> tuple[int, ...]:
        """Return the depths of a list such as 2,4, and that of the model."""
        words = listed.split(",") if listed else []
        depth = self.num_hidden_layers
        for word in words:
            if not word.strip().isdecimal() or not 1 <= int(word) <= depth:
                raise errors.UserError(
                    f"`exit_layers={listed}` must be numbers from 1 to "
                    f"{depth}, the layers of the model, with commas between "
                    "them."
                )
        depths = tuple(sorted({*map(int, words), depth}))
        if words and len(depths) < 2:
            raise errors.UserError(
                f"`exit_layers={listed}` is the last layer alone, which "
                "answers anyway. Name others, too, or leave it out."
            )
        return depths

    def forward_flops(
        self, length: int, num_predictions: int, num_outputs: int | None = None
    ) -> float:
        """Return the operations of all matrix products for one sequence.

        A training step does three times as many. Additions and multiplications
        count one each; other operations are left out.

        Args:
            length: Tokens of the sequence.
            num_predictions: Positions that the masked LM head predicts.
            num_outputs: Number of positions, `output_positions` of
                `AlbertModel`, at which the last layer is computed; None: all.
        """
        hidden, embedding = self.hidden_size, self.embedding_size
        # Of one position, multiplications alone: its key and its value.
        key_and_value = 2 * hidden**2
        # Query, attention, output and feed-forward; relative: products with
        # the keys of 2 S distances, too.
        keys = 2 if self.position_bias == "relative" else 1
        query = 2 * hidden * (hidden + self.intermediate_size + keys * length)
        layer = 2 * length * (key_and_value + query)
        if num_outputs is None or self.pooling != "cls":
            num_outputs = length
        num_outputs = min(length, num_outputs)
        last_layer = 2 * (length * key_and_value + num_outputs * query)
        projected = self.project_words_first or self.maps_embeddings
        mapping = 2 * length * embedding * hidden if projected else 0
        head = 2 * num_predictions * embedding * (hidden + self.vocab_size)
        if self.project_words_first:
            head += 2 * num_predictions * hidden**2
        layers = self.num_hidden_layers * self.inner_group_num
        return float((layers - 1) * layer + last_layer + mapping + head)

    @property
    def embedding_width(self) -> int:
        """Columns of the sum of word, segment and position embeddings."""
        first = self.project_words_first
        return self.hidden_size if first else self.embedding_size

    @property
    def maps_embeddings(self) -> bool:
        """Whether their normalized sum is projected to the hidden width."""
        if self.project_words_first:
            return False
        return self.map_equal_sizes or self.embedding_size != self.hidden_size

    @property
    def pooled_width(self) -> int:
        """Columns of what the pooler reads."""
        return self.hidden_size * (4 if self.pooling == "pair" else 1)

    @property
    def sharing(self) -> str:
        """What is shared, in words."""
        depth, groups = self.num_hidden_layers, self.num_hidden_groups
        inner = self.inner_group_num
        if depth * inner == 1:
            return "1 layer"
        layers = f"{depth} x {inner} layers" if inner > 1 else f"{depth} layers"
        if self.share == "none" or groups == depth:
            return f"{layers} that share nothing"
        shared = {"all": "all", "attention": "attention", "ffn": "feed-forward"}
        return (
            f"{layers} in {groups} group(s) that share "
            f"{shared[self.share]} parameters"
        )


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
    complaint = _RANGES[key].describe_fault(value, whole=kind is int)
    if complaint:
        raise errors.UserError(f"{key}={value!r} {complaint}")
