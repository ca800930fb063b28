"""Make the card of a run again, from what stands in its folder.

python -m albert_tf.write_run_card --output_dir=FOLDER
"""

import dataclasses

from albert_tf.common import options
from albert_tf.common.options import option


@dataclasses.dataclass(frozen=True)
class RunCardOptions:
    """Options of write_run_card."""

    output_dir: str = option(help="Folder of a run.", positional=True)


if __name__ == "__main__":
    options.check_command_line(RunCardOptions)

from albert_tf.training import run_card


def run(settings: RunCardOptions) -> None:
    print(run_card.write(settings.output_dir))


if __name__ == "__main__":
    options.run_script(run, RunCardOptions)
