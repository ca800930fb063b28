"""Bad inputs of finetuning; see `cases`."""

from tests.hostile.cases import CLASSIFIER, Case, config

ONE_SEGMENT = config(type_vocab_size=1)


def one_segment(command: str) -> Case:
    """A task with pairs, and a model for single texts."""
    given = {"albert_config_file": "{here}/c.json", "init_checkpoint": None}
    says = ("c.json has type_vocab_size 1", "the segment 1")
    return Case(command, given, says, {"c.json": ONE_SEGMENT})


def tags(content: str, *says: str, name: str = "t.conll", **changes) -> Case:
    """A training file of run_tagger that cannot be learnt."""
    path = f"{{here}}/{name}"
    says = (path, *says)
    given = {"train_file": path, **changes}
    return Case("run_tagger", given, says, {name: content.encode()})


def span(start: object, end: object) -> str:
    """A text of three characters with a span."""
    edges = f'"start": {start}, "end": {end}'
    return f'{{"text": "Ivo", "spans": [{{{edges}, "label": "A"}}]}}'


JSON = {"name": "t.jsonl"}
CASES = {
    "tags, empty file": tags("", "has no examples"),
    "tags, no tags": tags("Ivo\nslept\n", "line 1", "tag_column"),
    "tags, a column too few": tags("Ivo\tO\nslept\n", "line 2", "1 columns"),
    "tags, no such column": tags(
        "Ivo\tO\n", "line 1", "word_column=7", word_column=7
    ),
    "tags, one tag": tags("Ivo\tO\n", "every word has the tag O"),
    "tags, two kinds": tags("Ivo\tB-A\nslept\tVERB\n", "line 2", "VERB"),
    "tags, not UTF-8": tags("Ivo\tO\n", "line 1")._replace(
        files={"t.conll": b"Iv\xff\tO\n"}
    ),
    "spans outside": tags(span(0, 4), "3 characters", **JSON),
    "spans backwards": tags(span(2, 1), "is empty or outside", **JSON),
    "spans of a huge number": tags(span(0, "1e400"), **JSON),
    "words without tags": tags('{"words": ["a"]}', "no 'tags'", **JSON),
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
