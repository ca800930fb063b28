r"""Classification sets of German, Chinese and Japanese, as finetuning tasks.

    python -m lab.trials.language_tasks --data_dir=DATA --output_dir=OUTPUT

writes OUTPUT/TASK/{train,dev}.tsv for each set below; with
`--task_module=lab.trials.language_tasks --data_dir=OUTPUT` the commands
know the tasks. DATA holds the files as their authors give them, each of them
plain or compressed as .xz:

    germeval2018  de/germeval2018_{train,dev}.tsv     offensive tweets
    ocnli         zh-more/ocnli_{train,dev}.jsonl     inference
    jnli          ja/jnli_{train,dev}.jsonl           inference
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterable, Iterator

from albert_tf.common import files, options, outputs
from albert_tf.common.options import checked, option
from albert_tf.finetuning.glue import glue_tasks
from data_prep.writer import corpus

SPLITS = "train", "dev"
_INFERENCE = ("contradiction", "entailment", "neutral")


@dataclasses.dataclass(frozen=True)
@checked
class LanguageOptions:
    """Options of language_tasks."""

    data_dir: str = option(help="Folder of the authors' files.")
    output_dir: str = option(help="Folder for the tables.")


def _spec(
    name: str, labels: tuple[str, ...], *, pairs: bool
) -> glue_tasks.TaskSpec:
    columns = (3, 0, 1, 2) if pairs else (2, 0, None, 1)
    return glue_tasks.TaskSpec(
        labels=labels,
        splits={
            split: glue_tasks.Split(f"{name}/{split}.tsv", *columns)
            for split in SPLITS
        },
        metrics=("accuracy",) if pairs else ("f1", "accuracy"),
    )


SPECS = {
    "germeval2018": _spec("germeval2018", ("OTHER", "OFFENSE"), pairs=False),
    "ocnli": _spec("ocnli", _INFERENCE, pairs=True),
    "jnli": _spec("jnli", _INFERENCE, pairs=True),
}
_FILES = {
    "germeval2018": "de/germeval2018_{}.tsv",
    "ocnli": "zh-more/ocnli_{}.jsonl",
    "jnli": "ja/jnli_{}.jsonl",
}
glue_tasks.TASKS.update(SPECS)


def rows(name: str, lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the texts and the label of each example.

    Pairs on whose label the annotators do not agree ("-") are left out.
    """
    for line in lines:
        if name == "germeval2018":
            text, label, _ = line.rstrip("\n").split("\t")
            yield [text, label]
        else:
            pair = json.loads(line)
            row = [pair["sentence1"], pair["sentence2"], pair["label"]]
            if row[-1] != "-":
                yield [" ".join(field.split()) for field in row]


def _read_lines(path: pathlib.Path) -> list[str]:
    found = path if path.exists() else path.with_name(f"{path.name}.xz")
    with corpus.open_unpacked(str(found)) as stream:
        return stream.read().decode("utf-8").removesuffix("\n").split("\n")


def run(settings: LanguageOptions) -> None:
    """Write the files of all sets in the layout of their `Split`."""
    texts = {}
    for name, pattern in _FILES.items():
        names = ["text", "text_pair"][: 1 + SPECS[name].has_pairs]
        for split in SPLITS:
            path = pathlib.Path(settings.data_dir, pattern.format(split))
            table = [[*names, "label"], *rows(name, _read_lines(path))]
            target = f"{settings.output_dir}/{name}/{split}.tsv"
            texts[target] = "".join("\t".join(row) + "\n" for row in table)
    missing = [
        path
        for path, text in texts.items()
        if not files.exists(path) or files.read_bytes(path) != text.encode()
    ]
    outputs.claim(settings, "output_dir", missing)
    for path in missing:
        files.make_folder(os.path.dirname(path), "output_dir")
        files.write_text(path, texts[path])


if __name__ == "__main__":
    options.run_script(run, LanguageOptions)
