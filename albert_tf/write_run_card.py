"""Make the card of a run again, from what stands in its folder.

python -m albert_tf.write_run_card --output_dir=FOLDER
"""

import dataclasses

from albert_tf.common import imports, options
from albert_tf.common.options import option, shown

run_card = imports.later("albert_tf.training.run_card")


@dataclasses.dataclass(frozen=True)
@shown(Output="output_dir")
class RunCardOptions:
    """Options of write_run_card."""

    output_dir: str = option(
        help="Folder of a run.", positional=True, must_exist=True
    )


def run(settings: RunCardOptions) -> None:
    run_card.refuse_foreign(settings.output_dir)
    print(run_card.write(settings.output_dir))


if __name__ == "__main__":
    options.run_script(run, RunCardOptions)
