r"""Finetune an encoder that tags words: named entities, parts of speech.

    python -m albert_tf.run_tagger --do_train --do_eval \
        --train_file=train.conll --dev_file=dev.conll --max_seq_length=128 \
        --output_dir=runs/entities --spm_model_file=30k-clean.model \
        --albert_config_file=albert_base_v2 --init_checkpoint=albert_base_v2

The files have a word and its tag in each line, or are JSON lines:
docs/tagging.md. Started again with the same options, it goes on from the last
checkpoint of --output_dir.
"""

import dataclasses
from collections.abc import Sequence

from albert_tf.common import errors, options, scores
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
    words: tagging.TaggingOptions = dataclasses.field(
        default_factory=tagging.TaggingOptions
    )


if __name__ == "__main__":
    options.check_command_line(RunTaggerOptions)

from albert_tf.finetuning import finetune
from albert_tf.model.checkpoints import checkpoint_reader, huggingface
from albert_tf.model.heads import token_classification
from albert_tf.training import run_folder


def run(settings: RunTaggerOptions) -> None:
    """Train, evaluate and predict as the options say."""
    shared = settings.finetuning
    tokenizer = finetuning_options.load_tokenizer(shared)
    own = settings.words
    if not own.tags:
        own = dataclasses.replace(
            own, tags=tagging.SEPARATOR.join(_find_tags(settings))
        )
        settings = dataclasses.replace(settings, words=own)
    task = tagging.TaggingTask(tokenizer, shared.max_seq_length, own)
    finetune.run("run_tagger", settings, task, settings.sources)


def _find_tags(settings: RunTaggerOptions) -> Sequence[str]:
    """Return the tags of the training file, else those of a model."""
    shared, path = settings.finetuning, settings.train_file
    init = shared.init.init_checkpoint
    known: Sequence[str] = ()
    if init and not shared.new_head:
        known = _tags_of(init)
    if not path:
        known = _tags_of(scores.best_folder(shared.output_dir)) or known
        if not known:
            raise errors.UserError(
                "The tags are not known. Give `train_file`, or the tags as "
                "`tags`."
            )
        return known
    examples = tagging_data.read(path, settings.words.columns)
    found = tagging_data.labels_of(examples, path)
    if known and set(known) != set(found):
        raise errors.UserError(
            f"holds a model of other tags than {path}: {', '.join(known)}. "
            "To train a new head for those of the file, add `new_head`.",
            "init_checkpoint",
            init,
        )
    return known or found


def _tags_of(model: str) -> Sequence[str]:
    """Return the tags of a run, or of a Hugging Face folder; none of others."""
    folder = run_folder.folder_of(model)
    if run_folder.is_run(folder):
        tags = run_folder.read(folder).options.get("tags")
        return tagging.TaggingOptions(tags).labels
    if not huggingface.is_folder(folder):
        return ()
    shapes = checkpoint_reader.read(folder).shapes
    if f"{token_classification.SCOPE}/output_bias" not in shapes:
        return ()
    return huggingface.read_details(folder).labels


if __name__ == "__main__":
    options.run_script(run, RunTaggerOptions)
