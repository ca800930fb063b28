"""How likely a pretrained model finds the pieces that are hidden from it."""

import dataclasses
import math
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.common import configs, errors
from albert_tf.model import compatibility
from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import from_checkpoint, pretraining
from albert_tf.model.losses import cross_entropy
from albert_tf.text import tokenization
from albert_tf.training import run_folder

# Of one batch. The logits of 1,024 predictions over 30,000 pieces have 123 MB.
_TOKENS, _PREDICTIONS = 4096, 1024


class Query(NamedTuple):
    """A text of which some pieces are hidden.

    Attributes:
        ids: All pieces of the text, without [CLS] and [SEP].
        hidden: Numbers of the hidden ones, in `ids`; at least one.
    """

    ids: Sequence[int]
    hidden: Sequence[int]


class Scores(NamedTuple):
    """The answer to a query.

    Attributes:
        log2: float64 [hidden], binary logarithm of each piece's probability.
        right: bool [hidden], whether the piece is the most likely one.
    """

    log2: np.ndarray
    right: np.ndarray


class MaskedLm:
    """A model with a masked LM head, and its vocabulary."""

    def __init__(
        self,
        model: pretraining.AlbertPretrainer,
        tokenizer: tokenization.AnyTokenizer,
    ) -> None:
        """Compile the model."""
        self.tokenizer = tokenizer
        self.encoder = model.encoder
        spec = tf.TensorSpec([None, None], tf.int32)

        @tf.function(input_signature=[spec] * 4)
        def ask(
            ids: tf.Tensor,
            mask: tf.Tensor,
            places: tf.Tensor,
            labels: tf.Tensor,
        ) -> tuple[tf.Tensor, tf.Tensor]:
            inputs = {
                "input_ids": ids,
                "input_mask": mask,
                "masked_lm_positions": places,
            }
            logits = model(inputs)["masked_lm_logits"]
            # The fused loss of training would be compiled for every shape.
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels, logits
            )
            return loss, cross_entropy.correct(logits, labels)

        self._ask = ask

    def score(self, queries: Sequence[Query]) -> list[Scores]:
        """Answer queries, in batches of similar length.

        Every hidden piece is replaced by [MASK], and every text is one
        segment: [CLS] text [SEP].
        """
        longest = 2 + max(len(query.ids) for query in queries)
        most = self.encoder.config.max_position_embeddings
        if longest > most:
            raise errors.UserError(
                f"A text of {longest} pieces, with [CLS] and [SEP], is longer "
                f"than the {most} positions of the model."
            )
        found: dict[int, Scores] = {}
        for rows in _batches(queries):
            batch = self._batch([queries[row] for row in rows])
            loss, right = (x.numpy() for x in self._ask(*batch))
            for row, losses, hits in zip(rows, loss, right, strict=True):
                count = len(queries[row].hidden)
                log2 = -losses[:count].astype(np.float64) / math.log(2)
                found[row] = Scores(log2, hits[:count] > 0)
        return [found[row] for row in range(len(queries))]

    def _batch(self, queries: Sequence[Query]) -> tuple[np.ndarray, ...]:
        """Return ids, mask, positions and labels, int32, padded with 0."""
        length = 2 + max(len(query.ids) for query in queries)
        width = max(len(query.hidden) for query in queries)
        ids, mask = np.zeros([2, len(queries), length], np.int32)
        places, labels = np.zeros([2, len(queries), width], np.int32)
        for row, (text, hidden) in enumerate(queries):
            end, count = len(text) + 1, len(hidden)
            ids[row, 0] = self.tokenizer.cls_id
            ids[row, 1:end] = text
            ids[row, end] = self.tokenizer.sep_id
            mask[row, : end + 1] = 1
            places[row, :count] = np.asarray(hidden) + 1
            labels[row, :count] = ids[row, places[row, :count]]
            ids[row, places[row, :count]] = self.tokenizer.mask_id
        return ids, mask, places, labels


def _batches(queries: Sequence[Query]) -> Iterator[list[int]]:
    """Yield the numbers of the queries of each batch, the shortest first."""
    order = sorted(range(len(queries)), key=lambda n: len(queries[n].ids))
    batch: list[int] = []
    width = 0
    for number in order:
        ids, hidden = queries[number]
        wider, rows = max(width, len(hidden)), len(batch) + 1
        too_many = rows * (len(ids) + 2) > _TOKENS
        if batch and (too_many or rows * wider > _PREDICTIONS):
            yield batch
            batch, wider = [], len(hidden)
        batch.append(number)
        width = wider
    if batch:
        yield batch


@dataclasses.dataclass(frozen=True)
class Source:
    """A checkpoint, and what belongs to it.

    Attributes:
        checkpoint: Folder of a run or release, or a checkpoint in it.
    """

    checkpoint: str
    config_file: str
    vocabulary: tokenization.VocabularyOptions

    @classmethod
    def find(
        cls,
        checkpoint: str,
        config_file: str | None,
        vocabulary: tokenization.VocabularyOptions,
    ) -> "Source":
        """Look beside the checkpoint for what is not given."""
        checkpoint = configs.find_checkpoint(checkpoint)
        folder = run_folder.folder_of(checkpoint)
        config_file = config_file or os.path.join(
            folder, run_folder.CONFIG_NAME
        )
        if vocabulary.kind is None and run_folder.is_run(folder):
            vocabulary = run_folder.read(folder, "init_checkpoint").vocabulary
        if vocabulary.kind is None:
            beside = run_folder.find_vocabularies(folder)
            vocabulary = dataclasses.replace(vocabulary, **beside)
        return cls(checkpoint, config_file, vocabulary)

    def load(self) -> MaskedLm:
        """Restore the model."""
        config = AlbertConfig.from_json_file(self.config_file)
        tokenizer = compatibility.load_tokenizer(
            self.vocabulary, config, self.config_file
        )
        checkpoint = self.read()
        model = from_checkpoint.make_untrained_model(config, checkpoint)
        restoring.restore(model, checkpoint)
        return MaskedLm(model, tokenizer)

    def read(self) -> checkpoint_reader.Checkpoint:
        """Return the checkpoint, which must have a masked LM head."""
        checkpoint = checkpoint_reader.read(self.checkpoint)
        parts = map(checkpoint_reader.part_of, checkpoint.shapes)
        if "cls/predictions" not in parts:
            raise errors.UserError(
                f"`init_checkpoint={self.checkpoint}` has no masked LM head, "
                "which held_out and minimal_pairs need. Give a run of "
                "run_pretraining, or measure `parts=cost,finetuning`."
            )
        return checkpoint
