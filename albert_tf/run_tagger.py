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

from albert_tf.common import options
from albert_tf.common.options import checked, option
from albert_tf.finetuning import finetuning_options, tagging, tagging_data


@dataclasses.dataclass(frozen=True)
@checked
class RunTaggerOptions(finetuning_options.FileOptions):
    """Options of run_tagger."""

    train_file: str | None = option(
        None, "Columns or JSON lines for --do_train.", may_change=True
    )
    task_name: str = option(
        tagging.NAME, "The only one.", choices=(tagging.NAME,)
    )
    words: tagging.TaggingOptions = tagging.TaggingOptions()
    teaching: finetuning_options.TeacherOptions = (
        finetuning_options.TeacherOptions()
    )


if __name__ == "__main__":
    options.check_command_line(RunTaggerOptions)

from albert_tf.finetuning import finetune, known_labels
from albert_tf.model.heads import token_classification

_NAMES = known_labels.Names(
    "tags",
    lambda tags: tagging.TaggingOptions(tags).labels,
    f"{token_classification.SCOPE}/output_bias",
)


def run(settings: RunTaggerOptions) -> None:
    own = settings.words
    if not own.tags:
        found = _NAMES.choose(
            settings.finetuning,
            settings.train_file,
            lambda path: tagging_data.labels_of(
                tagging_data.read(path, own.columns), path
            ),
        )
        own = dataclasses.replace(own, tags=tagging.SEPARATOR.join(found))
        settings = dataclasses.replace(settings, words=own)
    _NAMES.check_order(settings.finetuning, settings.words.labels)
    finetune.run("run_tagger", settings, settings.sources)


if __name__ == "__main__":
    options.run_script(run, RunTaggerOptions)
