"""The ALBERT encoder in plain NumPy and float64, by the names of its weights.

Written after the paper (§3.1) and the original's modeling.py, not after ours.
Where dropout acts in training, `drop` is called; it says what becomes of the
values there.
"""

import math

import numpy as np

# Where dropout acts: after the embeddings, and three times in every block.
EMBEDDINGS = "embeddings"
PROBABILITIES = "probabilities"
ATTENTION, FEED_FORWARD = "attention", "feed forward"


def gelu(x):
    """The tanh form."""
    slope = (2 / np.pi) ** 0.5
    return x / 2 * (1 + np.tanh(slope * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_erf": lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / 2**0.5)),
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "linear": lambda x: x,
}


def keep_all(place, block, x):
    return x


class Encoder:
    """Layers that share all parameters of their group, with a mapping."""

    # The layers of a block by the names of their weights.
    self_attention = "attention_1/self"
    attention_output = "attention_1/output/dense"
    attention_norm = "LayerNorm"
    inner = "ffn_1/intermediate/dense"
    outer = "ffn_1/intermediate/output/dense"
    feed_forward_norm = "LayerNorm_1"

    def __init__(self, config, weights, drop=keep_all):
        """`weights`: name to array; `drop`: (place, block, x) to x."""
        self.config = config
        self.weights = {n: np.asarray(w, float) for n, w in weights.items()}
        self.drop = drop

    def norm(self, x, scope):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        normed = (x - mean) / np.sqrt(variance + self.config.layer_norm_eps)
        gamma, beta = (self.weights[f"{scope}/{n}"] for n in ("gamma", "beta"))
        return normed * gamma + beta

    def dense(self, x, scope):
        kernel, bias = (
            self.weights[f"{scope}/{n}"] for n in ("kernel", "bias")
        )
        return x @ kernel + bias

    def embed(self, ids, segments):
        """Embeddings, [B, S, E]."""
        segment_table, position_table = (
            self.weights[f"bert/embeddings/{name}_embeddings"]
            for name in ("token_type", "position")
        )
        x = self.words()[ids] + segment_table[segments]
        x = self.norm(
            x + position_table[: ids.shape[1]], "bert/embeddings/LayerNorm"
        )
        return self.drop(EMBEDDINGS, 0, x)

    def words(self):
        """The table of words; the masked LM head has it, too."""
        return self.weights["bert/embeddings/word_embeddings"]

    def widen(self, embedded):
        """[B, S, E] to [B, S, H]."""
        return self.dense(embedded, "bert/encoder/embedding_hidden_mapping_in")

    def scopes(self):
        config = self.config
        for layer in range(config.num_hidden_layers):
            group = layer * config.num_hidden_groups // config.num_hidden_layers
            for inner in range(config.inner_group_num):
                yield (
                    f"bert/encoder/transformer/group_{group}/"
                    f"inner_group_{inner}"
                )

    def attend(self, x, mask, scope, block):
        heads = self.config.num_attention_heads
        size = x.shape[-1] // heads
        query, key, value = (
            self.dense(x, f"{scope}/{self.self_attention}/{name}")
            for name in ("query", "key", "value")
        )
        columns = [slice(h * size, (h + 1) * size) for h in range(heads)]
        scores = np.stack(
            [query[..., c] @ key[..., c].swapaxes(1, 2) for c in columns], 1
        )
        scores = scores / size**0.5 + (1 - mask[:, None, None, :]) * -10000.0
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        shares = powers / powers.sum(-1, keepdims=True)
        shares = self.drop(PROBABILITIES, block, shares)  # [B, heads, S, S]
        context = [shares[:, h] @ value[..., c] for h, c in enumerate(columns)]
        y = self.dense(
            np.concatenate(context, -1), f"{scope}/{self.attention_output}"
        )
        return self.norm(
            x + self.drop(ATTENTION, block, y), f"{scope}/{self.attention_norm}"
        )

    def feed_forward(self, x, scope, block, activation=gelu):
        y = activation(self.dense(x, f"{scope}/{self.inner}"))
        y = self.dense(y, f"{scope}/{self.outer}")
        return self.norm(
            x + self.drop(FEED_FORWARD, block, y),
            f"{scope}/{self.feed_forward_norm}",
        )

    def encode(self, ids, mask, segments):
        """The outputs of `modeling.AlbertModel`, but for the words alone."""
        embedded = self.embed(ids, segments)
        x = self.widen(embedded)
        layers = []
        for block, scope in enumerate(self.scopes()):
            x = self.attend(x, mask, scope, block)
            x = self.feed_forward(x, scope, block)
            layers.append(x)
        pooled = np.tanh(self.dense(x[:, 0], "bert/pooler/dense"))
        return {
            "embedding_output": embedded,
            "all_encoder_layers": layers,
            "sequence_output": x,
            "pooled_output": pooled,
        }

    def masked_lm_logits(self, x, positions):
        """Of the positions [B, P] in the sequence output, [B, P, V]."""
        x = x[np.arange(len(x))[:, None], positions]
        scope = "cls/predictions/transform"
        x = gelu(self.dense(x, f"{scope}/dense"))
        x = self.norm(x, f"{scope}/LayerNorm")
        return x @ self.words().T + self.weights["cls/predictions/output_bias"]


class BrightmartEncoder(Encoder):
    """That of brightmart's albert_zh, by its names; one shared block.

    Written after its modeling.py, not after ours. The table of words has the
    width of the encoder: it is the product of two.
    """

    self_attention = "attention/self"
    attention_output = "attention/output/dense"
    attention_norm = "attention/output/LayerNorm"
    inner = "intermediate/dense"
    outer = "output/dense"
    feed_forward_norm = "output/LayerNorm"

    def words(self):
        """[V, H]."""
        scope = "bert/embeddings/word_embeddings"
        return self.weights[scope] @ self.weights[f"{scope}_2"]

    def widen(self, embedded):
        """It is wide."""
        return embedded

    def scopes(self):
        return ["bert/encoder/layer_shared"] * self.config.num_hidden_layers
