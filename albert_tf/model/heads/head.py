"""What is known of a head without its task: the names of its weights."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import tf_keras as keras

from albert_tf.common import slices
from albert_tf.model.network.encoder import AlbertModel

# Ours, the kind of layer, theirs: see `layouts.LEAVES`.
Row = tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class Head:
    """A head, as checkpoints know it.

    Attributes:
        scope: What the names of its weights have in common; see
            `checkpoint_reader.part_of`.
        width_of: The variable whose length says how many outputs there are;
            "" where this number is fixed.
        make: From an encoder and that number to the model.
        reads_pooler: Whether the encoder's pooler has a part in it.
        labels_option: What albert_tf.export calls the names of the outputs.
        transformers: Classes of transformers, without Albert or Bert, with the
            names of their weights.
        pipelines: What the hub calls what these classes do.
    """

    scope: str
    width_of: str
    make: Callable[[AlbertModel, int], keras.Model]
    reads_pooler: bool = True
    labels_option: str = "labels"
    transformers: Mapping[str, Sequence[Row]] = dataclasses.field(
        default_factory=dict
    )
    pipelines: Mapping[str, str] = dataclasses.field(default_factory=dict)


def of_slices() -> Iterator[Head]:
    for module in slices.load_all("model"):
        yield from module.HEADS
