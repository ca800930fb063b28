"""Bad inputs of finetuning; see `cases`."""

import numpy as np
import safetensors.numpy

from tests.hostile.cases import CLASSIFIER, Case, config

ONE_SEGMENT = config(type_vocab_size=1)


def one_segment(command: str) -> Case:
    """A task with pairs, and a model for single texts."""
    given = {"albert_config_file": "{here}/c.json", "init_checkpoint": None}
    says = ("c.json has type_vocab_size 1", "the segment 1")
    return Case(command, given, says, {"c.json": ONE_SEGMENT})


def not_finite(command: str, value: float) -> Case:
    """Weights that are no numbers: refused before anything is made of data."""

    def damage(whole: bytes) -> bytes:
        tensors = safetensors.numpy.load(whole)
        name = "albert.embeddings.LayerNorm.weight"
        tensors[name] = np.full_like(tensors[name], value)
        return safetensors.numpy.save(tensors, {"format": "pt"})

    return Case(
        command,
        {"init_checkpoint": "{here}/huggingface"},
        ("--init_checkpoint=", "/huggingface holds numbers", "not finite"),
        {"huggingface/model.safetensors": damage},
        ("huggingface",),
    )


CASES = {
    **{
        f"one segment, {command}": one_segment(command)
        for command in (CLASSIFIER, "run_squad", "run_race")
    },
    **{
        f"weights of {value}, {command}": not_finite(command, value)
        for command, value in (
            (CLASSIFIER, np.nan),
            ("run_tagger", np.inf),
            ("run_pretraining", np.nan),
        )
    },
}
