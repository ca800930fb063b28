"""Bad inputs of finetuning; see `cases`."""

import functools

import numpy as np
import safetensors.numpy

from tests.hostile.cases import CLASSIFIER, Case, config

ONE_SEGMENT = config(type_vocab_size=1)


def one_segment(command: str) -> Case:
    """A task with pairs, and a model for single texts."""
    given = {"albert_config_file": "{here}/c.json", "init_checkpoint": None}
    says = ("c.json has type_vocab_size 1", "the segment 1")
    return Case(command, given, says, {"c.json": ONE_SEGMENT})


def tags(content: str, *says: str, name: str = "t.conll", **changes) -> Case:
    path = f"{{here}}/{name}"
    says = (path, *says)
    given = {"train_file": path, **changes}
    return Case("run_tagger", given, says, {name: content.encode()})


def span(start: object, end: object) -> str:
    edges = f'"start": {start}, "end": {end}'
    return f'{{"text": "Ivo", "spans": [{{{edges}, "label": "A"}}]}}'


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


JSON = {"name": "t.jsonl"}


def vectors(content: str, *says: str, name="t.tsv", **changes: object) -> Case:
    where = {"train_file": "{here}/" + name, **changes}
    return Case("run_embeddings", where, says, {name: content.encode()})


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


SEVERAL = {"multi_label": True}
RANKING = {"query_column": "query", "dev_share": 0.0}
NUMBER = {"regression": True, "dev_share": 0.0}
scored = functools.partial(vectors, train_examples="scored")
PAIRS, SCORES = "text\ttext_pair\n", "text\ttext_pair\tscore\n"
TWO = f"{PAIRS}a\tb\nc\td\n"

CASES = {
    "tags, empty file": tags("", "has no examples"),
    "tags, no such column": tags(
        "Ivo\tO\n", "line 1", "word_column=7", word_column=7
    ),
    "spans backwards": tags(span(2, 1), "is empty, white", **JSON),
    "spans of a huge number": tags(span(0, "1e400"), **JSON),
    "table without the column": table(
        "text,lable\na,1\n", "no 'label'", "'text', 'lable'"
    ),
    "table of one label": table("text,label\na,1\nb,1\n", "these labels", "1"),
    "table, empty": table("", "has 0 examples"),
    "table, a folder": table(
        "", "cannot be read: Is a directory", train_file="{here}"
    ),
    "table, empty label": table("text,label\na,1\nb,\n", "line 3", "no label"),
    "table, unseen label": table(
        "text,label\na,x\nb,y\n", "line 3", "'y'", labels="x,z"
    ),
    "table, a number for a text": table(
        '{"text": 1, "label": "a"}', "line 1: 'text' is 1", name="t.jsonl"
    ),
    "table without a header": table(
        "a,1\nb,2\n", "line 1 has no '3'", text_columns="3", header=False
    ),
    "table, first row taken for a header": table(
        "a,1\nb,2\n", "line 1 has no 'text'", "give --header=False"
    ),
    "table, an empty column": table(
        "text,label\n,a\n ,b\n", "--text_columns=text is empty in all 2 rows"
    ),
    "table, a name cut at its comma": table(
        'label,"text, long"\na,b\n',
        "line 1 has no 'text'; there are 'label', 'text, long'",
        text_columns="text, long",
    ),
    "table, names with a line break": table(
        "text,label\na,b\n", "--text_columns=", text_columns="te\rxt"
    ),
    "table, three bad rows": table(
        "sep=;\ntext;label\na;\nb;x\nc;\nd\n",
        "line 3",
        "2 more: line 5, line 6.",
    ),
    "table, no Parquet": table("PAR1", "no whole Parquet", name="t.parquet"),
    "several labels, one empty": table(
        'text,label\na,"x,,y"\n',
        "line 2",
        "holds '', which is no label",
        **SEVERAL,
    ),
    "several labels, lists of nothing": table(
        '{"text": "a", "label": [null]}', "line 1", name="t.jsonl", **SEVERAL
    ),
    "number, NaN": table(
        "text,label\na,1\nb,nan\n", "line 3", "'nan', which is no", **NUMBER
    ),
    "ranking, below 0": table(
        "query,text,label\na,b,1\na,c,-1\n", "line 3", "-1", **RANKING
    ),
    "ranking, no query": table(
        "query,text,label\na,b,1\n ,c,0\n",
        "line 3: the column 'query' is empty",
        **RANKING,
    ),
    "no pairs": vectors(PAIRS, "{here}/t.tsv has no examples"),
    "pairs of nothing": vectors(f"{PAIRS}\t\n\t\n", "{here}/t.tsv"),
    "pairs without a header": vectors("a\tb\nc\td\n", "line 1 has no 'text'"),
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
        f"score of {score!r}": scored(
            f"{SCORES}a\tb\t0\nc\td\t{score}\n", "{here}/t.tsv", says
        )
        for score, says in (
            ("inf", "line 3: the score 'inf'"),
            ("1e999", "line 3: the score '1e999'"),
            ("", "line 3: the score ''"),
            ("0,5", "line 3: the score '0,5'"),
            ("-4", "--max_score=1.0 allows"),
        )
    },
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
