"""Small folders in the layout of RACE."""

import json

from albert_tf.tasks.race import task as race
from tests.albert_tf.tasks.glue.small_tasks import Markers

ARTICLE = {
    "article": "It rains.",
    "questions": ["What falls?", "The _ is _ ."],
    "options": [["rain", "snow", "hail", "fog"], ["sea", "sky", "ship", "a b"]],
    "answers": ["A", "D"],
    "id": "high7.txt",
}


def make(tokenizer=None, max_seq_length=32, **options):
    options = {"max_qa_length": 12, **options}
    return race.RaceTask(
        tokenizer or Markers(), max_seq_length, race.RaceOptions(**options)
    )


def write(folder, name, *articles):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(a) + "\n" for a in articles))
    return str(folder)


def article(number, level="middle", **changes):
    return {**ARTICLE, "id": f"{level}{number}.txt", **changes}


def ids(examples):
    return list(dict.fromkeys(e.guid.split(".")[0] for e in examples))


THREE = [["rain", "snow", "hail", "fog"], ["sea", "sky", "ship"]]


FIVE = [["rain", "snow", "hail", "fog"], ["sea", "sky", "ship", "ice", "a"]]
