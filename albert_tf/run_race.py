r"""Finetune ALBERT on RACE, evaluate it, predict its test set.

    python -m albert_tf.run_race --flagfile=configs/race/race.flags \
        --data_dir=RACE --output_dir=runs/race \
        --spm_model_file=30k-clean.model --init_checkpoint=albert_base_v2

Started again with the same options, it goes on from the last checkpoint of
--output_dir.
"""

import dataclasses

from albert_tf import finetuning, options
from albert_tf.options import option
from albert_tf.tasks import race


@dataclasses.dataclass(frozen=True)
class RunRaceOptions:
    """Options of run_race."""

    finetuning: finetuning.FinetuningOptions
    data_dir: str = option(
        help="Folder that holds train, dev and test of RACE.", may_change=True
    )
    task_name: str = option(race.NAME, "The only one.", choices=(race.NAME,))
    questions: race.RaceOptions = dataclasses.field(
        default_factory=race.RaceOptions
    )


def run(settings: RunRaceOptions) -> None:
    """Train, evaluate and predict as the options say."""
    task = race.RaceTask(
        finetuning.load_tokenizer(settings.finetuning),
        settings.finetuning.max_seq_length,
        settings.questions,
    )
    finetuning.run(
        finetuning.Job(
            "run_race", settings, task, task.sources(settings.data_dir)
        )
    )


if __name__ == "__main__":
    options.run_script(run, RunRaceOptions)
