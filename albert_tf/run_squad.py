r"""Finetune ALBERT on SQuAD 1.1 or 2.0, evaluate it, write its answers.

    python -m albert_tf.run_squad --flagfile=configs/squad/squad_v2.flags \
        --train_file=train-v2.0.json --predict_file=dev-v2.0.json \
        --output_dir=runs/squad --spm_model_file=30k-clean.model \
        --init_checkpoint=albert_base

--do_eval scores --predict_file after every checkpoint, --do_predict writes the
answers of the best one. A trained --output_dir answers any file of questions:
--do_predict=true --predict_file=questions.json, without answers too.

Started again with the same options, it goes on from the last checkpoint of
--output_dir.
"""

import dataclasses

from albert_tf.common import errors, imports, options, ranges
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import base, finetuning_options
from albert_tf.tasks.squad import task as squad

finetune = imports.later("albert_tf.finetuning.finetune")


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="max_seq_length")
class SquadFinetuningOptions(finetuning_options.FinetuningOptions):
    """The shared options, with the original's length of a sequence."""

    max_seq_length: int = option(
        384, "Tokens per window; more is cut up.", within=ranges.TOKENS_OF_TASK
    )


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="train_file predict_file task_name")
class RunSquadOptions(finetuning_options.TaskOptions):
    """Options of run_squad."""

    finetuning: SquadFinetuningOptions
    train_file: str | None = option(
        None,
        "SQuAD's JSON file to train on.",
        may_change=True,
        must_exist="do_train",
    )
    predict_file: str | None = option(
        None,
        "SQuAD's JSON file to evaluate or to answer.",
        may_change=True,
        must_exist="do_eval",
    )
    task_name: str = option(squad.NAME, "The only one.", choices=(squad.NAME,))
    questions: squad.SquadOptions = squad.SquadOptions()
    teaching: finetuning_options.TeacherOptions = (
        finetuning_options.TeacherOptions()
    )

    def __post_init__(self) -> None:
        shared = self.finetuning
        if shared.pooling:
            raise errors.UserError(
                f"`pooling={shared.pooling}` is for tasks with one answer for "
                "the whole input. SQuAD's head reads every token; leave "
                "`pooling` out."
            )
        has_records = shared.train_feature_file is not None
        if shared.do_train and not (self.train_file or has_records):
            raise errors.UserError(
                "--do_train is set, but --train_file is missing. Give a file "
                "such as train-v2.0.json."
            )
        for name in ("do_eval", "do_predict"):
            if getattr(shared, name) and not self.predict_file:
                raise errors.UserError(
                    f"--{name} is set, but --predict_file is missing. Give a "
                    "file such as dev-v2.0.json."
                )

    @property
    def sources(self) -> dict[str, str]:
        paths = {
            base.TRAIN: self.train_file,
            base.DEV: self.predict_file,
            base.TEST: self.predict_file,
        }
        return {split: path for split, path in paths.items() if path}


def run(settings: RunSquadOptions) -> None:
    finetune.run("run_squad", settings, settings.sources)


if __name__ == "__main__":
    options.run_script(run, RunSquadOptions)
