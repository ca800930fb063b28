r"""Turn the files of a finetuning task into TFRecords.

    python -m data_prep.create_finetuning_data --task_name=mnli \
        --input_file=glue/MNLI/train.tsv --output_file=mnli_train.tfrecord \
        --spm_model_file=30k-clean.model --is_training=true --max_seq_length=128

Records come in the order of the input. The bytes do not depend on the number of
processes. Beside the records a JSON file says what they were made from, and
training with `--train_feature_file` compares it with its own options. The
`run_*` commands make such records by themselves, and shuffle those of training;
this is for machines that shall not wait for them, and features in a bucket.
"""

import os
import sys

if not __package__:  # Run by its path: find the packages beside this folder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

import dataclasses

from absl import logging

from albert_tf.common import errors, files, options, outputs, shared_options
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import base, features, registry
from albert_tf.tasks.glue import specs
from albert_tf.text import tokenization

_TABLE = "table"
_NAMES = sorted({*registry.TASKS} - {_TABLE})
_KINDS = {name: registry.TASKS[name] for name in _NAMES}
# The options of each slice.
SliceOptions = dataclasses.make_dataclass(
    "SliceOptions",
    [
        (
            name,
            kind.data_options or kind.options_class,
            dataclasses.field(
                default=(kind.data_options or kind.options_class)()
            ),
        )
        for name, kind in _KINDS.items()
    ],
    frozen=True,
)


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Data="task_name input_file is_training split max_seq_length task_module",
    Devices="num_workers",
    Output="output_file overwrite",
)
class FinetuningDataOptions:
    """Options of create_finetuning_data."""

    task_name: str = option(
        help=f"One of {', '.join([*specs.TASKS, *_NAMES])}."
    )
    input_file: str = option(
        help="The official file of one split; for RACE the folder of the split."
    )
    output_file: str = option(help="TFRecord file to write.")
    is_training: bool = option(
        False, "Whether the records are for training; then labels are needed."
    )
    split: str | None = option(
        None,
        "Which split's layout the input has, such as dev_matched. Default: "
        "train for --is_training; else the one that the name of --input_file "
        "begins with, such as test.tsv; else dev.",
    )
    max_seq_length: int = shared_options.max_seq_length("longer is cut")
    task_module: str | None = option(
        None, "Python module that adds tasks of your own."
    )
    num_workers: int = shared_options.num_workers()
    overwrite: bool = shared_options.overwrite("--output_file")
    of_slices: SliceOptions = SliceOptions()  # type: ignore[valid-type]
    vocabulary: tokenization.VocabularyOptions = (
        tokenization.VocabularyOptions()
    )

    def __post_init__(self) -> None:
        if self.task_name.lower() == _TABLE:
            raise errors.UserError(
                f"--task_name={self.task_name}: run_classifier makes the "
                "records of tables by itself. Use it with `text_columns`."
            )
        self.vocabulary.require()


def run(settings: FinetuningDataOptions) -> None:
    output = settings.output_file
    written = [output, output + features.KEY_ENDING]
    outputs.check(settings, "output_file", written)
    if not files.exists(settings.input_file):
        raise errors.UserError(
            f"--input_file={settings.input_file} does not exist. Check the "
            f"path (the current folder is {os.getcwd()})."
        )
    registry.load_module(settings.task_module)
    tokenizer = tokenization.load(settings.vocabulary)
    values = options.to_dict(settings)
    split = choose_split(settings, registry.make(values, tokenizer))
    is_learnt = settings.is_training or split == base.TRAIN
    file_facts = base.FactSource(settings.input_file if is_learnt else None)
    task = registry.make(values, tokenizer, source=file_facts)
    logging.info("Reading %s as %s.", settings.input_file, split)
    content = features.data_sha256(task, settings.input_file)
    examples = task.read(settings.input_file, split)
    key = features.describe(task, content, split)
    records = features.encode(
        task, examples, split, settings.num_workers, with_padding=True
    )
    features.write(output, records, len(examples), key, through_link=True)


def choose_split(settings: FinetuningDataOptions, task: base.Task) -> str:
    """Return the split that the input file holds."""
    splits = (base.TRAIN, *task.eval_splits, *task.test_splits)
    name = os.path.basename(settings.input_file.rstrip("/"))
    fitting = [split for split in splits if name.startswith(split)]
    named = max(fitting, key=len, default="")  # dev_matched, rather than dev.
    default = splits[1]
    if settings.is_training:
        default = base.TRAIN
    elif named and task.layout(named) == task.layout(default):
        default = named
    split = settings.split or default
    if split not in splits:
        raise errors.UserError(
            f"--split={split} is no split of {task.name}. It has "
            f"{', '.join(splits)}."
        )
    chosen = settings.split or named
    if settings.is_training and chosen in task.test_splits:
        raise errors.UserError(
            f"--is_training needs labels, but --input_file="
            f"{settings.input_file} is a {chosen} split, which has none. Give "
            "the training file, or --is_training=false, or --split=train if "
            "its name misleads."
        )
    return split


if __name__ == "__main__":
    options.run_script(run, FinetuningDataOptions)
