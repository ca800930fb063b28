r"""Print mean cosine similarities between groups of word vectors of a model.

    python -m lab.trials.compare_words --init_checkpoint=RUN \
        --spm_model_file=30k-clean.model --words=good,best --others=bad,worst

RUN is the folder of a `run_pretraining`, or any checkpoint that its
--init_checkpoint takes. Words of several pieces are refused. The vectors are
those of the embedding table minus their mean over the vocabulary. The last
number compares with a thousand pieces drawn with a fixed seed.
"""

import dataclasses
import os

import numpy as np

from albert_tf.common import errors, options
from albert_tf.common.options import option
from albert_tf.model import modeling
from albert_tf.model.checkpoints import restoring
from albert_tf.text import tokenization

_DRAWN = 1000
_SEED = 2019


@dataclasses.dataclass(frozen=True)
class CompareOptions:
    """Options of compare_words."""

    init_checkpoint: str = option(help="The checkpoint.")
    spm_model_file: str = option(help="Its vocabulary.")
    words: str = option(help="Words of one kind, separated by commas.")
    others: str = option(help="Words of another kind.")
    albert_config_file: str | None = option(
        None, "Default: the albert_config.json in --init_checkpoint."
    )

    @property
    def config_file(self) -> str:
        """The architecture."""
        beside = os.path.join(self.init_checkpoint, "albert_config.json")
        return self.albert_config_file or beside


def mean_cosine(one: np.ndarray, other: np.ndarray) -> float:
    """Return the mean cosine of all pairs of different vectors.

    Args:
        one: float [n, size], of length 1.
        other: float [m, size], of length 1; `one` itself for pairs within it.
    """
    cosines = one @ other.T
    if one is other:
        cosines = cosines[~np.eye(len(one), dtype=bool)]
    return float(cosines.mean())


def run(settings: CompareOptions) -> None:
    """Print the means."""
    tokenizer = tokenization.load(
        tokenization.VocabularyOptions(settings.spm_model_file)
    )

    def find(name: str) -> list[int]:
        found = []
        for word in getattr(settings, name).split(","):
            ids = tokenizer.encode(word)
            if len(ids) != 1 or ids[0] == tokenizer.unk_id:
                raise errors.UserError(
                    f"--{name} has {word!r}, which is not one piece of "
                    f"{settings.spm_model_file}. Leave it out."
                )
            found += ids
        if len(set(found)) < 2:
            raise errors.UserError(f"--{name} needs two words or more.")
        return found

    ids = {name: find(name) for name in ("words", "others")}
    config = modeling.AlbertConfig.from_json_file(settings.config_file)
    encoder = modeling.AlbertModel(config)
    restoring.restore(encoder, settings.init_checkpoint)
    table = encoder.embeddings.word_embeddings.numpy().astype(np.float64)
    table -= table.mean(0)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    words, others = table[ids["words"]], table[ids["others"]]
    drawn = table[np.random.default_rng(_SEED).integers(5, len(table), _DRAWN)]
    print(f"among --words          {mean_cosine(words, words):6.3f}")
    print(f"among --others         {mean_cosine(others, others):6.3f}")
    print(f"between the two        {mean_cosine(words, others):6.3f}")
    print(f"--words with any piece {mean_cosine(words, drawn):6.3f}")


if __name__ == "__main__":
    options.run_script(run, CompareOptions)
