"""Bad records and vocabularies that do not go together; see `cases`."""

import io
import json

import numpy as np

from albert_tf.data import examples, layouts, tfrecord
from tests.conftest import tiny_config
from tests.hostile import commands
from tests.hostile.cases import (
    RECORDS,
    Case,
    Content,
    config,
    without_piece,
)
from tests.hostile.refusals import parsed


def numbers(name: str, *values: object):
    """Records without a manifest; the 2nd has other numbers at the start."""
    layout = layouts.pretraining_layout(commands.LENGTH, commands.PREDICTIONS)

    def change(whole: bytes) -> bytes:
        messages = list(tfrecord.read_frames(io.BytesIO(whole)))
        found = examples.decode(messages[1])
        arrays = {f.name: found[f.name][None].copy() for f in layout}
        arrays[name][0, : len(values)] = values
        messages[1:2] = tfrecord.encode_batch(layout, arrays)
        return b"".join(tfrecord.frame_batch(messages))

    return Case(
        RECORDS,
        {"input_file": "{here}/train.tfrecord"},
        ("{here}/train.tfrecord", name, "record 2 "),
        {"train.tfrecord": change},
        ("records/train.tfrecord",),
    )


def inspected_number(value: int):
    case = numbers("input_ids", value)
    says = ("{here}/train.tfrecord", f"input_ids has the number {value}")
    return case._replace(command="inspect_records", says=says)


def another_vocabulary(whole: bytes) -> bytes:
    content = {**json.loads(whole), "vocab_sha256": "0" * 64}
    del content["crc32c"]
    return json.dumps(content).encode()


def other_records(whole: bytes) -> bytes:
    """A manifest of records of the same vocabulary and size."""
    content = json.loads(whole)
    content["shard_sha256"] = ["0" * 64 for _ in content["shards"]]
    del content["crc32c"]
    return json.dumps(content).encode()


def word_embeddings() -> bytes:
    content = io.BytesIO()
    model = tiny_config()
    shape = model.vocab_size, model.embedding_size
    np.save(content, np.zeros(shape, np.float32))
    return content.getvalue()


def mixed(line: str) -> Case:
    """Files of different vocabularies, and no option that names one."""
    command, changes = parsed(f"{line} -spm_model_file")
    if command == RECORDS:
        changes = {"input_file": "{here}/records/train.tfrecord", **changes}
    files: dict[str, Content] = {
        "records/train.tfrecord.manifest.json": another_vocabulary
    }
    return Case(command, changes, SAYS, files, ("records", "pretrained"))


def replaced(line: str) -> Case:
    """Another vocabulary in the place of a model's, or beside it."""
    name, _, line = line.partition(": ")
    files = {name: lambda whole: without_piece(whole, "▁")}
    return Case(*parsed(line), SAYS, files, (name.split("/")[0],))


SAYS = ("another vocabulary",)
RECORD_FILES = "{inputs}/records/train.tfrecord,{here}/records/train.tfrecord"
MIXED = f"""
run_pretraining --input_file={RECORD_FILES}
run_pretraining --input_file={{inputs}}/records/train.tfrecord \
--eval_input_file={{here}}/records/train.tfrecord
make_word_embeddings --input_file={RECORD_FILES}
run_pretraining --init_checkpoint={{inputs}}/pretrained
run_pretraining --output_dir={{here}}/pretrained
run_pretraining --output_dir={{here}}/pretrained --do_train=false --do_eval=true
"""
# The vocabulary that is changed, and a command.
REPLACED = """
spm.model: inspect_records --spm_model_file={here}/spm.model
spm.model: export --run_dir={inputs}/pretrained \
--spm_model_file={here}/spm.model
spm.model: convert_checkpoint --spm_model_file={here}/spm.model
spm.model: run_classifier --spm_model_file={here}/spm.model
pretrained/spm.model: export --run_dir={here}/pretrained
pretrained/spm.model: export --run_dir={here}/pretrained \
--checkpoint={inputs}/pretrained
pretrained/spm.model: distill --teacher={here}/pretrained
"""
CASES = {
    "piece beyond the vocabulary": numbers("input_ids", 400),
    "piece of 33 bits": numbers("input_ids", 2**32 + 7),
    "a gap in the mask": numbers("input_mask", 1, 0, 1, *[0] * 29),
    "mask that starts late": numbers("input_mask", 0),
    "one segment in the model": Case(
        RECORDS,
        {"albert_config_file": "{here}/c.json"},
        ("record 1 ", "segment_ids 1; allowed are 0 to 0"),
        {"c.json": config(type_vocab_size=1)},
    ),
    "inspected number of 33 bits": inspected_number(2**32 + 7),
    "word embeddings of another vocabulary": Case(
        RECORDS,
        {"word_embeddings_file": "{here}/w.npy"},
        ("another vocabulary", "--word_embeddings_file={here}/w.npy"),
        {
            "w.npy": word_embeddings(),
            "w.npy.json": json.dumps({"vocab_sha256": "0" * 64}).encode(),
        },
    ),
    "run continued with other records": Case(
        RECORDS,
        {
            "input_file": "{here}/records/train.tfrecord",
            "output_dir": "{here}/pretrained",
        },
        ("other records", "--init_checkpoint", "--output_dir"),
        {"records/train.tfrecord.manifest.json": other_records},
        ("records", "pretrained"),
    ),
    **{line: mixed(line) for line in MIXED.strip().splitlines()},
    **{line: replaced(line) for line in REPLACED.strip().splitlines()},
}
