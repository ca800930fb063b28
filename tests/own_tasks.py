"""The tasks of tests/fixtures/own_text, in the sizes that a test needs."""

import json

from tests.conftest import FIXTURES

OWN = FIXTURES / "own_text"


def write_rte(folder, **sizes):
    """Write splits, such as `train=40, test=10`; test has no labels."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in sizes.items():
        source = OWN / f"glue/RTE/{'train' if split == 'train' else 'dev'}.tsv"
        lines = source.read_text("utf-8").removesuffix("\n").split("\n")
        header, *rows = [line.split("\t") for line in lines]
        rows = rows[-size:] if split == "test" else rows[:size]
        width = 3 if split == "test" else 4
        kept = [header, *([str(i), *row[1:]] for i, row in enumerate(rows))]
        (folder / f"{split}.tsv").write_text(
            "".join("\t".join(row[:width]) + "\n" for row in kept), "utf-8"
        )


def write_race(folder, **counts):
    """Write the same articles of four questions as all three splits."""
    for split in ("train", "dev", "test"):
        for level, count in counts.items():
            (folder / split / level).mkdir(parents=True)
            for number in range(count):
                source = OWN / f"race/dev/{level}/{number + 1}.txt"
                article = json.loads(source.read_text("utf-8"))
                path = folder / split / level / f"{number}.txt"
                path.write_text(json.dumps(article) + "\n")


def squad(split, num_articles):
    content = json.loads((OWN / f"squad/{split}-v2.0.json").read_text("utf-8"))
    return {**content, "data": content["data"][:num_articles]}
