"""Small valid files of every kind; the tests damage copies of them."""

import gzip
import io
import json
import lzma
import pathlib
import shutil
import tarfile

import numpy as np
import pyarrow
from backports import zstd

from albert_tf.common import options
from albert_tf.finetuning import saved_outputs
from albert_tf.model.checkpoints import keras_hub
from albert_tf.tasks.glue import specs
from albert_tf.text import normalization, wordpiece
from data_prep import make_demo_data
from data_prep.demo import story_world
from tests import own_tasks, sentence_folders
from tests.albert_tf.model import models
from tests.conftest import tiny_config
from tests.hostile import commands, tables


def do(inputs: pathlib.Path, short: str, **changes) -> None:
    """Run a command in this process; it must succeed."""
    name = commands.SHORT[short]
    flags = commands.Workspace(inputs, inputs).flags(name, changes)
    status = options.run_inside(*commands.load(name), flags)
    assert status == 0, (name, changes)


def build(folder: pathlib.Path, vocabulary: str) -> pathlib.Path:
    """Write all files; `vocabulary` is a SentencePiece model of 400 pieces."""
    _train(build_texts(folder, vocabulary))
    return folder


def build_texts(inputs: pathlib.Path, vocabulary: str) -> pathlib.Path:
    """Write the files that take no training; see `build`."""
    shutil.copy(vocabulary, inputs / "spm.model")
    normalization.write(
        str(inputs / "spm.model"), normalization.Normalization()
    )
    for name, content in (_texts() | ROWS | _tasks()).items():
        path = inputs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = content.encode() if isinstance(content, str) else content
        path.write_bytes(packed)
    own_tasks.write_race(inputs / "race", middle=2, high=2)
    make_demo_data.write_options(make_demo_data.DemoOptions(f"{inputs}/demo"))
    _teach(inputs / "taught")
    _write_records(inputs)
    return inputs


def _texts() -> dict[str, str | bytes]:
    """Corpora, and a vocabulary of letters."""
    text = story_world.make_corpora(7, 20, 1)[0]
    stories = [s for s in text.split("\n\n") if s.strip()]
    table = pyarrow.table({"text": stories, "id": range(len(stories))})
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as stream:
        member = tarfile.TarInfo("text.txt")
        member.size = len(text)
        stream.addfile(member, io.BytesIO(text.encode()))
    letters = "abcdefghijklmnopqrstuvwxyz.,?!'-"
    pieces = [*wordpiece.SPECIAL_PIECES, *letters, *(f"##{x}" for x in letters)]
    return {
        "text.txt": text,
        "text.jsonl": "".join(f"{json.dumps({'text': s})}\n" for s in stories),
        "text.parquet": tables.parquet(table),
        "text.arrow": tables.arrow(table),
        "text.file.arrow": tables.arrow(table, pyarrow.ipc.new_file),
        "text.txt.gz": gzip.compress(text.encode(), mtime=0),
        "text.txt.xz": lzma.compress(text.encode()),
        "text.txt.zst": zstd.compress(text.encode()),
        "text.tar.gz": archive.getvalue(),
        "vocab.txt": "\n".join(pieces) + "\n",
        "config.json": tiny_config().to_json(),
    }


ROWS: dict[str, str | bytes] = {
    "pairs.tsv": "id\ttext\ttext_pair\na\tIvo slept.\tIvo was awake.\n"
    "b\tMara gave Ivo the ring.\tIvo has the ring.\n",
    "pairs.csv": 'id,text,text_pair\na,"Ivo\nslept, he said.",Ivo was awake.\n'
    'b,"""Mara"" slept",\n',
    "pairs.jsonl": '{"id": "a", "text": "Ivo slept.", "text_pair": "Ivo."}\n'
    '{"id": "b", "text": "Mara slept.", "text_pair": "Ivo slept."}\n',
    "scored.jsonl": '{"text": "Ivo slept.", "text_pair": "I.", "score": 0.5}\n'
    '{"text": "Mara slept.", "text_pair": "It rains.", "score": "0"}\n',
    "triplets.csv": "text,positive,negative\n"
    'Ivo slept.,"Ivo, he slept.",It rains.\nMara woke.,Mara.,Ivo slept.\n',
    "queries.jsonl": '{"id": "a", "text": "Ivo."}\n{"id": 7, "text": "Mara."}\n'
    '{"query": "Who slept?", "relevant": ["a"]}\n',
    "questions.jsonl": '{"question": "Who?", "context": "Ivo slept there."}\n',
    "tags.conll": "Ivo\tB-PER\nslept\tO\n\nMara\tB-PER\n",
    "spans.jsonl": '{"text": "Ivo", "spans": '
    '[{"start": 0, "end": 3, "label": "A"}]}',
}


def _tasks() -> dict[str, str | bytes]:
    found: dict[str, str | bytes] = {
        f"glue/{split.file}": tsv(layout, split, 6)
        for layout in specs.TASKS.values()
        for split in layout.splits.values()
    }
    return {**found, "squad.json": json.dumps(own_tasks.squad("dev", 1))}


def tsv(layout: specs.TaskSpec, split: specs.Split, rows: int) -> str:
    lines = []
    for number in range(rows):
        fields = [str(number)] * split.count
        fields[split.text_a] = f"Ivo went to the mill {number}."
        if split.text_b is not None:
            fields[split.text_b] = f"Ivo is at the farm {number}."
        if split.label is not None:
            labels = layout.labels or ("1.5", "4.0")
            fields[split.label] = labels[number % len(labels)]
        lines.append("\t".join(fields))
    if split.header:
        lines.insert(0, "\t".join(split.columns))
    return "\n".join(lines) + "\n"


TAUGHT = 5


def _teach(folder: pathlib.Path) -> None:
    """Write the outputs that a teacher gave for some examples."""
    saved_outputs.store_outputs(
        str(folder),
        {"task": "rte"},
        range(TAUGHT),
        lambda some: {"logits": np.array([[n, -n] for n in some], "f4")},
    )


def _write_records(inputs: pathlib.Path) -> None:
    for folder, changes in (
        ("records", {}),
        ("unmasked", {"masking_time": "training"}),
        (
            "passages",
            {
                "records": "passages",
                "max_predictions_per_seq": None,
                "dupe_factor": None,
            },
        ),
    ):
        output = f"{inputs}/{folder}/train.tfrecord"
        do(inputs, "create_pretraining_data", output_file=output, **changes)
    output = f"{inputs}/features/rte.tfrecord"
    do(
        inputs,
        "create_finetuning_data",
        output_file=output,
        is_training=True,
    )


def _train(inputs: pathlib.Path) -> None:
    do(inputs, "run_pretraining", output_dir=inputs / "pretrained")
    rte = inputs / "rte"
    flags = dict.fromkeys(("do_eval", "do_predict"), True)
    do(inputs, "run_classifier", output_dir=rte, **flags)
    shutil.copytree(rte, inputs / "rte_again")
    do(inputs, "convert_checkpoint", to=inputs / "huggingface")
    (inputs / "preset").mkdir()
    weights = models.random_weights("encoder", tiny_config())
    for name, data in keras_hub.contents(tiny_config(), weights).items():
        (inputs / "preset" / name).write_bytes(data)
    modules = ["Pooling", "Dense", "Normalize"]
    sentence_folders.write(inputs / "sentences", modules)
    do(inputs, "export", export_dir=inputs / "served")
