r"""Measure a model on the tasks of MTEB, which are downloaded.

    pip install mteb
    python -m lab.measure.mteb_model --model=albert_small_en \
        --benchmark='MTEB(eng, v2)' --output_dir=OUTPUT

--model is what lab.measure.sentences takes. Where a run, a checkpoint or a
folder of sentence-transformers has prompts of these names, queries of retrieval
get `query`, documents `document` or `passage`; all other texts get its default
prompt. To use it elsewhere: mteb.evaluate(MtebModel(NAME), tasks).
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.common import imports, options
from albert_tf.common.options import checked, option
from lab.measure import text_models

mteb = imports.later("mteb")
similarity_functions = imports.later("mteb.similarity_functions")
model_meta = imports.later("mteb.models.model_meta")


# Names of prompts, by mteb's types.
_PROMPTS = {"query": ("query",), "document": ("document", "passage")}


class MtebModel:
    """What mteb 2 calls an encoder (`mteb.models.EncoderProtocol`)."""

    def __init__(self, model_name: str, revision: str | None = None, **_: Any):
        files = text_models.find(model_name, None)
        self.vectors = text_models.Vectors(files.load)
        self._by_type = {}
        for kind, names in _PROMPTS.items():
            named = [n for n in names if n in files.prompting.texts]
            if named:
                with_prompt = text_models.find(model_name, None, named[0])
                self._by_type[kind] = text_models.Vectors(with_prompt.load)
        self.mteb_model_meta = model_meta.ModelMeta.create_empty(
            {
                "name": f"albert_tf/{model_name.strip('/').split('/')[-1]}",
                "revision": revision or files.fingerprint,
                "similarity_fn_name": "cosine",
            }
        )

    def encode(
        self,
        inputs: Iterable[Mapping[str, Sequence[str]]],
        *,
        prompt_type: Any = None,
        **_: Any,
    ) -> np.ndarray:
        """Return float32 [texts, width], of length 1.

        Args:
            prompt_type: An `mteb.types.PromptType`.
        """
        kind = getattr(prompt_type, "value", None)
        vectors = self._by_type.get(kind, self.vectors)
        return vectors([text for batch in inputs for text in batch["text"]])

    def similarity(self, ours: np.ndarray, others: np.ndarray) -> Any:
        return similarity_functions.cos_sim(ours, others)

    def similarity_pairwise(self, ours: np.ndarray, others: np.ndarray) -> Any:
        return similarity_functions.pairwise_cos_sim(ours, others)


@dataclasses.dataclass(frozen=True)
@checked
class MtebOptions:
    """Options of mteb_model."""

    model: str = option(help="What gives the vectors.")
    output_dir: str = option(help="Folder for results, a file for each task.")
    benchmark: str = option("MTEB(eng, v2)", "The name of a benchmark.")


def run(settings: MtebOptions) -> None:
    mteb.evaluate(
        MtebModel(settings.model),
        mteb.get_benchmark(settings.benchmark),
        cache=mteb.ResultCache(settings.output_dir),
    )


if __name__ == "__main__":
    options.run_script(run, MtebOptions)
