r"""Finetune ALBERT on RACE, evaluate it, predict its test set.

    python -m albert_tf.run_race --flagfile=configs/race/race.flags \
        --data_dir=RACE --output_dir=runs/race \
        --spm_model_file=30k-clean.model --init_checkpoint=albert_base

Started again with the same options, it goes on from the last checkpoint of
--output_dir.
"""

import dataclasses

from albert_tf.common import imports, options
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import finetuning_options
from albert_tf.tasks.race import task as race

finetune = imports.later("albert_tf.finetuning.finetune")


@dataclasses.dataclass(frozen=True)
@checked
@shown(Data="data_dir task_name")
class RunRaceOptions(finetuning_options.TaskOptions):
    """Options of run_race."""

    data_dir: str = option(
        help="Folder that holds train, dev and test of RACE.",
        may_change=True,
        must_exist="do_eval",
    )
    task_name: str = option(race.NAME, "The only one.", choices=(race.NAME,))
    questions: race.RaceOptions = race.RaceOptions()
    teaching: finetuning_options.TeacherOptions = (
        finetuning_options.TeacherOptions()
    )


def run(settings: RunRaceOptions) -> None:
    finetune.run("run_race", settings)


if __name__ == "__main__":
    options.run_script(run, RunRaceOptions)
