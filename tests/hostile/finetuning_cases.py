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


def vectors(content: str, *says: str, **changes: object) -> Case:
    where = {"train_file": "{here}/t.tsv", **changes}
    return Case("run_embeddings", where, says, {"t.tsv": content.encode()})


def table(content: str, *says: str, name="t.csv", **changes: object) -> Case:
    given = {
        "train_file": "{here}/" + name,
        "text_columns": "text",
        "label_column": "label",
        "data_dir": None,
        "task_name": None,
        **changes,
    }
    return Case(CLASSIFIER, given, says, {name: content.encode()})


PAIRS = "text\ttext_pair\n"
TWO = f"{PAIRS}a\tb\nc\td\n"

CASES = {
    "table, a number for a text": table(
        '{"text": 1, "label": "a"}', "line 1: 'text' is 1", name="t.jsonl"
    ),
    "table, first row taken for a header": table(
        "a,1\nb,2\n", "line 1 has no 'text'", "give --header=False"
    ),
    "several labels, lists of nothing": table(
        '{"text": "a", "label": [null]}',
        "line 1",
        name="t.jsonl",
        multi_label=True,
    ),
    "ranking, no query": table(
        "query,text,label\na,b,1\n ,c,0\n",
        "line 3: the column 'query' is empty",
        query_column="query",
        dev_share=0.0,
    ),
    "pairs of nothing": vectors(f"{PAIRS}\t\n\t\n", "{here}/t.tsv"),
    "one pair at a time": vectors(
        TWO, "--train_batch_size=1", train_batch_size=1
    ),
    "no pairs to evaluate": vectors(
        TWO, "{here}/empty", do_eval=True, dev_file="{here}/empty"
    ),
    "no file to predict": vectors(TWO, "--do_predict", do_predict=True),
    "vectors without end": vectors(
        TWO, "--projection_size", projection_size=10**9
    ),
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
