"""What an encoder computes: ALBERT's embeddings, layers and pooler.

The four operations of a layer are defined in `execution.plain`: `linear`,
`attention`, `feed_forward` and `layer_norm`.
"""
