"""A decoder in plain NumPy and float64, by the names of its weights.

Written after T5, Raffel et al., section 2.1, with the layers of ALBERT: what
`encoder.Encoder` does, with attention to a memory in between.
"""

import numpy as np

from tests.reference import encoder


class Decoder(encoder.Encoder):
    """Its layers are the encoder's; only attention to the memory is its own."""

    def attend_to(self, x, memory, visible, scope):
        """One position after the other; visible: bool [B, S, T]."""
        heads = self.config.num_attention_heads
        size = x.shape[-1] // heads
        query = self.dense(x, f"{scope}/{self.self_attention}/query")
        key, value = (
            self.dense(memory, f"{scope}/{self.self_attention}/{name}")
            for name in ("key", "value")
        )
        context = np.zeros_like(x)
        for row, place, head in np.ndindex(*x.shape[:2], heads):
            columns = slice(head * size, (head + 1) * size)
            seen = visible[row, place]
            scores = key[row, seen, columns] @ query[row, place, columns]
            powers = np.exp((scores - scores.max()) / size**0.5)
            shares = powers / powers.sum()
            shares = self.drop(encoder.PROBABILITIES, 0, shares)
            context[row, place, columns] = shares @ value[row, seen, columns]
        y = self.dense(context, f"{scope}/{self.attention_output}")
        y = self.drop(encoder.ATTENTION, 0, y)
        return self.norm(x + y, f"{scope}/{self.attention_norm}")

    def cross_scopes(self):
        """The scope of each layer's attention to the memory, in order."""
        for scope in self.scopes():
            group, inner = scope.rsplit("/", 2)[-2:]
            yield f"decoder/{group}/{inner.replace('inner_group', 'layer')}"

    def decode(self, targets, memory, mask):
        """Logits of targets [B, P], each from those before it.

        Args:
            memory: [B, S, H], the encoder's output.
            mask: [B, S], 1 for real tokens.
        """
        before = np.concatenate([0 * targets[:, :1], targets[:, :-1]], 1)
        x = self.widen(self.embed(before, 0 * before))
        length = targets.shape[1]
        causal = np.tri(length, dtype=bool)[None].repeat(len(targets), 0)
        seen = np.repeat(mask[:, None] > 0, length, 1)
        for scope, cross in zip(
            self.scopes(), self.cross_scopes(), strict=True
        ):
            x = self.attend_to(x, x, causal, scope)
            x = self.attend_to(x, memory, seen, cross)
            x = self.feed_forward(x, scope, 0)
        scope = "decoder/predictions/transform"
        x = encoder.gelu(self.dense(x, f"{scope}/dense"))
        x = self.norm(x, f"{scope}/LayerNorm")
        bias = self.weights["decoder/predictions/output_bias"]
        return x @ self.words().T + bias
