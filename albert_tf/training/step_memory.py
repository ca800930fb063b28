"""Estimate the memory of a step from shapes alone.

All large tensors that exist at the same time are counted; small ones, the
program and TensorFlow's own buffers are a constant. The tests compare the sum
with measured peaks: it is right within a factor of 1.5.

Letters are those of `modeling`: B sequences, S tokens, H, I, E, N, V.
"""

import dataclasses

from albert_tf.model import modeling

# What a process needs beside the tensors of a step: Python, TensorFlow, the
# compiled program, buffers of its threads.
PROCESS = 850 * 2**20
_PROGRAM = "the program"
_FLOAT = 4


@dataclasses.dataclass(frozen=True)
class Work:
    """What goes through a network at once.

    Attributes:
        config: The encoder.
        sequences: Sequences B that one replica has at once: its share of the
            batch, divided by `gradient_accumulation_steps`; for RACE times the
            options of a question that go through together.
        length: Their tokens S.
        predictions: Masked words of a sequence; 0 without that head.
        starts: Of SQuAD 2.0, the starts that are followed, 1 in training.
        precision: What the encoder computes in.
        recompute: Whether blocks are computed again for their gradient.
        microbatches: `gradient_accumulation_steps`.
        replicas: Those that share the memory.
        generator: The network that predicts the masked words before the encoder
            runs, see `heads.replaced_tokens`.
        generator_sharing: The weights that both share, one of
            `model_options.GENERATOR_SHARING`.
        counted: Parameters that another network of the program counts.
    """

    config: modeling.AlbertConfig
    sequences: int
    length: int
    predictions: int = 0
    starts: int = 0
    precision: str = "float32"
    recompute: bool = False
    microbatches: int = 1
    replicas: int = 1
    generator: modeling.AlbertConfig | None = None
    generator_sharing: str = "none"
    counted: int = 0

    @property
    def _weights(self) -> int:
        """Bytes of the weights."""
        return _FLOAT * (parameters(self.config) - self.counted)

    @property
    def _width(self) -> int:
        """Bytes of a number in the encoder."""
        return _FLOAT if self.precision == "float32" else 2

    @property
    def _hidden(self) -> int:
        """Entries of [B, S, H]."""
        return self.sequences * self.length * self.config.hidden_size

    @property
    def _inner(self) -> int:
        """Entries of [B, S, I]."""
        return self.sequences * self.length * self.config.intermediate_size

    @property
    def _scores(self) -> int:
        """Entries of [B, N, S, S]."""
        heads = self.config.num_attention_heads
        return self.sequences * heads * self.length**2

    @property
    def _blocks(self) -> int:
        return self.config.num_hidden_layers * self.config.inner_group_num

    @property
    def _narrow(self) -> int:
        """Bytes of the sum of embeddings [B, S, E] and its norm."""
        rows = self.sequences * self.length
        return 6 * _FLOAT * rows * self.config.embedding_width

    @property
    def _logits(self) -> int:
        """Bytes of the logits of all masked words."""
        rows = self.sequences * self.predictions
        return _FLOAT * rows * self.config.vocab_size

    def training(self) -> dict[str, int]:
        """Return the bytes of each kind of tensor in a training step."""
        if self.generator:
            return _added(*(part.training() for part in self._parts()))
        weights = self._weights
        gradients = weights * (2 if self.microbatches > 1 else 1)
        each = self._kept_by_block()
        kept = self._width * self._hidden if self.recompute else each
        blocks = self._blocks * kept + (each if self.recompute else 0)
        # Gradients of the blocks' weights: the sum of those known so far, and
        # that of one use.
        uses = self._width * (
            _distinct_parameters(self.config) + _block_parameters(self.config)
        )
        return self._on_all_replicas(
            {
                "the weights, their moments and gradients": 3 * weights
                + gradients,
                "the gradients of shared weights": uses,
                "the encoder's blocks": blocks + self._passing() + self._narrow,
                "the logits of the masked words": 3 * self._logits,
                "the head": 10 * _FLOAT * self.starts * self._hidden,
            }
        )

    def inference(self) -> dict[str, int]:
        """Return the same for a batch that is evaluated or predicted."""
        if self.generator:
            found = _added(*(part.inference() for part in self._parts()))
            # To draw words: probabilities and their sums.
            return {**found, "the choice of words": 2 * self._logits}
        return self._on_all_replicas(
            {
                "the weights": self._weights,
                "the encoder's blocks": 3 * self._passing() // 2 + self._narrow,
                "the logits of the masked words": 2 * self._logits,
                "the head": 4 * _FLOAT * self.starts * self._hidden,
            }
        )

    def _parts(self) -> tuple["Work", "Work"]:
        """Return the encoder, without a masked LM head, and the generator."""
        assert self.generator
        alone = dataclasses.replace(self, generator=None)
        shared = {
            "none": 0,
            "embeddings": _table_parameters(self.config),
            "all": parameters(self.config),
        }[self.generator_sharing]
        return (
            dataclasses.replace(alone, predictions=0),
            dataclasses.replace(alone, config=self.generator, counted=shared),
        )

    def _kept_by_block(self) -> int:
        """Return the bytes that a block keeps for its gradient.

        Its input, queries, keys, values, context, the sums before both norms
        and the result of the first; what goes into the activation and, unless
        that is GELU, comes out. Of dropout also a byte for each entry, and the
        probabilities twice.
        """
        config, hidden, scores = self.config, self._hidden, self._scores
        inner = 1 if config.hidden_act == "gelu" else 2
        kept = self._width * (8 * hidden + inner * self._inner)
        if config.hidden_dropout_prob:
            kept += 2 * hidden
        if config.attention_probs_dropout_prob:
            kept += (2 * self._width + 1) * scores
        return kept

    def _passing(self) -> int:
        """Return the bytes of a block's tensors that are not kept."""
        largest = max(2 * self._scores, 2 * self._inner, 4 * self._hidden)
        return _FLOAT * largest

    def _on_all_replicas(self, sizes: dict[str, int]) -> dict[str, int]:
        found = {name: self.replicas * size for name, size in sizes.items()}
        return {**found, _PROGRAM: PROCESS}


def _added(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    """Add up the sizes of two networks in one program."""
    return {
        name: size if name == _PROGRAM else size + second[name]
        for name, size in first.items()
    }


def _block_parameters(config: modeling.AlbertConfig) -> int:
    return _attention_parameters(config) + _ffn_parameters(config)


def _attention_parameters(config: modeling.AlbertConfig) -> int:
    width = config.hidden_size
    return 4 * width * (width + 1) + 2 * width


def _ffn_parameters(config: modeling.AlbertConfig) -> int:
    width, intermediate = config.hidden_size, config.intermediate_size
    return 2 * width * intermediate + intermediate + 3 * width


def _distinct_parameters(config: modeling.AlbertConfig) -> int:
    """Return the number of parameters of all blocks, shared ones once."""
    attentions, ffns = (
        len(set(numbers)) for numbers in zip(*config.layer_groups, strict=True)
    )
    return config.inner_group_num * (
        attentions * _attention_parameters(config)
        + ffns * _ffn_parameters(config)
    )


def _table_parameters(config: modeling.AlbertConfig) -> int:
    """Return the number of parameters of the embeddings and their norm."""
    return (
        config.embedding_size * config.vocab_size
        + config.embedding_width
        * (config.type_vocab_size + config.max_position_embeddings + 2)
    )


def parameters(config: modeling.AlbertConfig) -> int:
    """Return the number of the encoder's parameters."""
    width, narrow = config.hidden_size, config.embedding_size
    tables = _table_parameters(config)
    mapping = 0
    if config.project_words_first:
        mapping = narrow * width
    elif config.maps_embeddings:
        mapping = (narrow + 1) * width
    blocks = _distinct_parameters(config)
    return tables + mapping + blocks + (config.pooled_width + 1) * width
