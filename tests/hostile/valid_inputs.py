"""Small valid files of every kind; the tests damage copies of them."""

import dataclasses
import gzip
import io
import json
import lzma
import pathlib
import shutil
import tarfile

import pyarrow
from backports import zstd

from albert_tf import (
    convert_checkpoint,
    export,
    run_classifier,
    run_pretraining,
)
from albert_tf.common import options
from albert_tf.finetuning.glue import glue_tasks
from albert_tf.text import normalization
from data_prep import (
    create_finetuning_data,
    create_pretraining_data,
    make_demo_data,
)
from data_prep.demo import story_world
from tests import own_tasks, sentence_folders
from tests.conftest import tiny_config
from tests.hostile import tables

LENGTH = 32
PREDICTIONS = 5
RUN = {
    "num_train_steps": 2,
    "num_warmup_steps": 1,
    "train_batch_size": 4,
    "learning_rate": 0.001,
    "max_seq_length": LENGTH,
    "max_predictions_per_seq": PREDICTIONS,
}


def flags(**values) -> list[str]:
    """Options as a command line has them; None leaves one out."""
    return [f"--{k}={v}" for k, v in values.items() if v is not None]


def do(module, options_name, **values) -> None:
    options_class = getattr(module, options_name)
    status = options.run_inside(module.run, options_class, flags(**values))
    assert status == 0, (module.__name__, values)


@dataclasses.dataclass(frozen=True)
class Inputs:
    folder: pathlib.Path

    def __getitem__(self, name: str) -> pathlib.Path:
        return self.folder / name


def build(folder: pathlib.Path, vocabulary: str) -> Inputs:
    """Write all files; `vocabulary` is a SentencePiece model of 400 pieces."""
    inputs = build_texts(folder, vocabulary)
    _train(inputs)
    return inputs


def build_texts(folder: pathlib.Path, vocabulary: str) -> Inputs:
    """Write the files that take no training; see `build`."""
    inputs = Inputs(folder)
    shutil.copy(vocabulary, inputs["spm.model"])
    normalization.write(str(inputs["spm.model"]), normalization.Normalization())
    inputs["config.json"].write_text(tiny_config().to_json())
    _write_texts(inputs)
    _write_tasks(inputs)
    _write_records(inputs)
    return inputs


def _write_texts(inputs: Inputs) -> None:
    text = story_world.make_corpora(7, 20, 1)[0]
    inputs["text.txt"].write_text(text)
    stories = [s for s in text.split("\n\n") if s.strip()]
    lines = [json.dumps({"text": story}) for story in stories]
    inputs["text.jsonl"].write_text("\n".join(lines) + "\n")
    _write_tables(inputs, stories)
    _pack(inputs, text.encode())
    letters = "abcdefghijklmnopqrstuvwxyz.,?!'-"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += [*letters, *(f"##{letter}" for letter in letters)]
    inputs["vocab.txt"].write_text("\n".join(pieces) + "\n")


def _write_tables(inputs: Inputs, stories: list[str]) -> None:
    table = pyarrow.table({"text": stories, "id": range(len(stories))})
    inputs["text.parquet"].write_bytes(tables.parquet(table))
    inputs["text.arrow"].write_bytes(tables.arrow(table))
    inputs["text.file.arrow"].write_bytes(
        tables.arrow(table, pyarrow.ipc.new_file)
    )


def _pack(inputs: Inputs, text: bytes) -> None:
    inputs["text.txt.gz"].write_bytes(gzip.compress(text, mtime=0))
    inputs["text.txt.xz"].write_bytes(lzma.compress(text))
    inputs["text.txt.zst"].write_bytes(zstd.compress(text))
    with tarfile.open(inputs["text.tar.gz"], "w:gz") as archive:
        member = tarfile.TarInfo("text.txt")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))


def _write_tasks(inputs: Inputs) -> None:
    for layout in glue_tasks.TASKS.values():
        for split in layout.splits.values():
            path = inputs["glue"] / split.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(tsv(layout, split, 6))
    inputs["squad.json"].write_text(json.dumps(own_tasks.squad("dev", 1)))
    own_tasks.write_race(inputs["race"], middle=2, high=2)
    options_of_data = make_demo_data.DemoOptions(str(inputs["demo"]))
    make_demo_data.claim_folder(options_of_data)
    inputs["pairs.tsv"].write_text(
        "id\ttext\ttext_pair\na\tIvo slept.\tIvo was awake.\n"
        "b\tMara gave Ivo the ring.\tIvo has the ring.\n"
    )
    inputs["pairs.csv"].write_text(
        'id,text,text_pair\na,"Ivo\nslept, he said.",Ivo was awake.\n'
        'b,"""Mara"" slept",\n'
    )
    inputs["pairs.jsonl"].write_text(
        '{"id": "a", "text": "Ivo slept.", "text_pair": "Ivo was awake."}\n'
        '{"id": "b", "text": "Mara slept.", "text_pair": "Ivo slept."}\n'
    )
    inputs["scored.jsonl"].write_text(
        '{"text": "Ivo slept.", "text_pair": "Ivo woke.", "score": 0.5}\n'
        '{"text": "Mara slept.", "text_pair": "It rains.", "score": "0"}\n'
    )
    inputs["triplets.csv"].write_text(
        'text,positive,negative\nIvo slept.,"Ivo, he slept.",It rains.\n'
        "Mara woke.,Mara is awake.,Ivo slept.\n"
    )
    inputs["queries.jsonl"].write_text(
        '{"id": "a", "text": "Ivo slept."}\n{"id": 7, "text": "Mara sat."}\n'
        '{"query": "Who slept?", "relevant": ["a"]}\n'
    )
    inputs["questions.jsonl"].write_text(
        '{"question": "Who slept?", "context": "Ivo slept at the mill."}\n'
    )
    inputs["tags.conll"].write_text("Ivo\tB-PER\nslept\tO\n\nMara\tB-PER\n")
    inputs["spans.jsonl"].write_text(
        '{"text": "Ivo", "spans": [{"start": 0, "end": 3, "label": "A"}]}'
    )
    inputs["request.json"].write_text('{"text": "Ivo slept.", "id": 1}')


def tsv(layout: glue_tasks.TaskSpec, split: glue_tasks.Split, rows: int) -> str:
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


def _write_records(inputs: Inputs) -> None:
    instances = {"max_predictions_per_seq": PREDICTIONS, "dupe_factor": 1}
    for folder, changes in (
        ("records", instances),
        ("unmasked", {**instances, "masking_time": "training"}),
        ("passages", {"records": "passages"}),
    ):
        do(
            create_pretraining_data,
            "CreatePretrainingDataOptions",
            input_file=inputs["text.txt"],
            output_file=inputs[f"{folder}/train.tfrecord"],
            spm_model_file=inputs["spm.model"],
            max_seq_length=LENGTH,
            num_workers=1,
            **changes,
        )
    do(
        create_finetuning_data,
        "FinetuningDataOptions",
        task_name="rte",
        input_file=inputs["glue/RTE/train.tsv"],
        output_file=inputs["features/rte.tfrecord"],
        spm_model_file=inputs["spm.model"],
        is_training=True,
        max_seq_length=LENGTH,
        num_workers=1,
    )


def _train(inputs: Inputs) -> None:
    model = {
        "albert_config_file": inputs["config.json"],
        "spm_model_file": inputs["spm.model"],
    }
    do(
        run_pretraining,
        "PretrainingOptions",
        **model,
        **RUN,
        input_file=inputs["records/train.tfrecord"],
        output_dir=inputs["pretrained"],
    )
    shared = {
        **model,
        "init_checkpoint": inputs["pretrained"],
        "max_seq_length": LENGTH,
        "do_train": True,
        "do_eval": True,
        "train_batch_size": 4,
        "train_step": 1,
    }
    do(
        run_classifier,
        "ClassifierOptions",
        **shared,
        data_dir=inputs["glue"],
        task_name="rte",
        do_predict=True,
        output_dir=inputs["rte"],
    )
    shutil.copytree(inputs["rte"], inputs["rte_again"])
    do(
        convert_checkpoint,
        "ConvertOptions",
        **{"from": inputs["pretrained"]},
        to=inputs["huggingface"],
        format="huggingface",
    )
    sentence_folders.write(
        inputs["sentences"], ["Pooling", "Dense", "Normalize"]
    )
    do(
        export,
        "ExportOptions",
        run_dir=inputs["rte"],
        export_dir=inputs["served"],
    )
