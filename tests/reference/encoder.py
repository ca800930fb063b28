"""The ALBERT encoder in plain NumPy and float64, by the names of its weights.

Written after the paper (§3.1) and the original's modeling.py, not after ours.
Where dropout acts in training, `drop` is called; it says what becomes of the
values there.
"""

import numpy as np

# Where dropout acts: after the embeddings, and three times in every block.
EMBEDDINGS = "embeddings"
PROBABILITIES, ATTENTION, FEED_FORWARD = (
    "probabilities",
    "attention",
    "feed forward",
)


def gelu(x):
    """The tanh form."""
    slope = (2 / np.pi) ** 0.5
    return x / 2 * (1 + np.tanh(slope * (x + 0.044715 * x**3)))


def keep_all(place, block, x):
    """No dropout."""
    return x


class Encoder:
    """Layers that share all parameters of their group, with a mapping."""

    def __init__(self, config, weights, drop=keep_all):
        """`weights`: name to array; `drop`: (place, block, x) to x."""
        self.config = config
        self.weights = {n: np.asarray(w, float) for n, w in weights.items()}
        self.drop = drop

    def norm(self, x, scope):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        normed = (x - mean) / np.sqrt(variance + 1e-12)
        gamma, beta = (self.weights[f"{scope}/{n}"] for n in ("gamma", "beta"))
        return normed * gamma + beta

    def dense(self, x, scope):
        kernel, bias = (
            self.weights[f"{scope}/{n}"] for n in ("kernel", "bias")
        )
        return x @ kernel + bias

    def embed(self, ids, segments):
        """Embeddings, [B, S, E]."""
        tables = [
            self.weights[f"bert/embeddings/{name}_embeddings"]
            for name in ("word", "token_type", "position")
        ]
        x = tables[0][ids] + tables[1][segments] + tables[2][: ids.shape[1]]
        x = self.norm(x, "bert/embeddings/LayerNorm")
        return self.drop(EMBEDDINGS, 0, x)

    def attend(self, x, mask, scope, block):
        """Attention, residual and norm; a loop over the heads."""
        heads = self.config.num_attention_heads
        size = x.shape[-1] // heads
        query, key, value = (
            self.dense(x, f"{scope}/attention_1/self/{name}")
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
            np.concatenate(context, -1), f"{scope}/attention_1/output/dense"
        )
        return self.norm(
            x + self.drop(ATTENTION, block, y), f"{scope}/LayerNorm"
        )

    def feed_forward(self, x, scope, block, activation=gelu):
        """Two dense layers, residual and norm."""
        inner = f"{scope}/ffn_1/intermediate"
        y = activation(self.dense(x, f"{inner}/dense"))
        y = self.dense(y, f"{inner}/output/dense")
        return self.norm(
            x + self.drop(FEED_FORWARD, block, y), f"{scope}/LayerNorm_1"
        )

    def encode(self, ids, mask, segments):
        """The outputs of `modeling.AlbertModel`, but for the words alone."""
        config = self.config
        embedded = self.embed(ids, segments)
        x = self.dense(embedded, "bert/encoder/embedding_hidden_mapping_in")
        layers = []
        for layer in range(config.num_hidden_layers):
            group = layer * config.num_hidden_groups // config.num_hidden_layers
            for inner in range(config.inner_group_num):
                scope = (
                    f"bert/encoder/transformer/group_{group}/"
                    f"inner_group_{inner}"
                )
                block = len(layers)
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
