"""Files of rows, for tests."""

import csv
import json
import pathlib

import pyarrow
import pyarrow.parquet


def read(path):
    """What the lines of a JSON file hold; a text has other line ends, too."""
    content = pathlib.Path(path).read_text("utf-8")
    return list(map(json.loads, content.removesuffix("\n").split("\n")))


def write(path, rows, separator=","):
    """Write dicts as the ending of a path says; return the path as a text."""
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with open(path, "w", encoding="utf-8", newline="") as stream:
            table = csv.DictWriter(
                stream, rows[0], delimiter=separator, quoting=csv.QUOTE_ALL
            )
            table.writeheader()
            table.writerows(rows)
    return str(path)
