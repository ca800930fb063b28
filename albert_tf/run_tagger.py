r"""Finetune an encoder that tags words: named entities, parts of speech.

    python -m albert_tf.run_tagger --do_train --do_eval \
        --train_file=train.conll --dev_file=dev.conll --max_seq_length=128 \
        --output_dir=runs/entities --spm_model_file=30k-clean.model \
        --albert_config_file=albert_base_v2 --init_checkpoint=albert_base

The files have a word and its tag in each line, or are JSON lines:
docs/tagging.md. Started again with the same options, it goes on from the last
checkpoint of --output_dir.
"""

import dataclasses

from albert_tf.common import imports, options
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import finetuning_options
from albert_tf.tasks.tagging import task

finetune = imports.later("albert_tf.finetuning.finetune")


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="train_file task_name")
class RunTaggerOptions(finetuning_options.FileOptions):
    """Options of run_tagger."""

    train_file: str | None = option(
        None,
        "Columns or JSON lines for --do_train.",
        may_change=True,
        must_exist="do_train",
    )
    task_name: str = option(task.NAME, "The only one.", choices=(task.NAME,))
    words: task.TaggingOptions = task.TaggingOptions()
    teaching: finetuning_options.TeacherOptions = (
        finetuning_options.TeacherOptions()
    )


def run(settings: RunTaggerOptions) -> None:
    finetune.run("run_tagger", settings, settings.sources)


if __name__ == "__main__":
    options.run_script(run, RunTaggerOptions)
