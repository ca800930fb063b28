"""Bad inputs of finetuning; see `cases`."""

from tests.hostile.cases import CLASSIFIER, Case, config

ONE_SEGMENT = config(type_vocab_size=1)


def one_segment(command: str) -> Case:
    """A task with pairs, and a model for single texts."""
    given = {"albert_config_file": "{here}/c.json", "init_checkpoint": None}
    says = ("c.json has type_vocab_size 1", "the segment 1")
    return Case(command, given, says, {"c.json": ONE_SEGMENT})


CASES = {
    **{
        f"one segment, {command}": one_segment(command)
        for command in (CLASSIFIER, "run_squad", "run_race")
    },
    "one segment is enough for vectors": Case(
        "run_embeddings",
        {"albert_config_file": "{here}/c.json", "init_checkpoint": None},
        files={"c.json": ONE_SEGMENT},
    ),
}
