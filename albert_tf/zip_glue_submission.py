r"""Pack the prediction files of finetuned models for GLUE's leaderboard.

    python -m albert_tf.zip_glue_submission \
        --input_dir=runs/glue --output_file=submission.zip

The files (`CoLA.tsv`, `MNLI-m.tsv`, `AX.tsv` and so on) are searched for in the
folder and in the folders right below it, where `run_glue` and `run_classifier
--do_predict` write them.
"""

import dataclasses
import glob
import io
import os
import zipfile

from absl import logging

from albert_tf.common import errors, files, options
from albert_tf.common.options import option
from albert_tf.finetuning.glue import glue_tasks

# In the order of the table of tasks; AX.tsv stands there twice.
NAMES = tuple(
    dict.fromkeys(
        split.submission
        for spec in glue_tasks.TASKS.values()
        for split in spec.splits.values()
        if split.submission
    )
)
_HEADER = b"index\tprediction\n"


@dataclasses.dataclass(frozen=True)
class ZipOptions:
    """Options of zip_glue_submission."""

    input_dir: str = option(help="Folder of the runs.", positional=True)
    output_file: str = option(help="ZIP file to write.")
    allow_missing: bool = option(
        False, "Whether to pack even if files are missing."
    )


def run(settings: ZipOptions) -> None:
    """Find the files of all tasks and pack them.

    Raises:
        errors.UserError: Some are missing, or are there several times.
    """
    files.require_target(
        settings.output_file, "output_file", [], overwrite=True
    )
    files.refuse_file(settings.input_dir, "input_dir")
    found = find_files(settings.input_dir)
    missing = [name for name in NAMES if name not in found]
    if not found or (missing and not settings.allow_missing):
        raise errors.UserError(
            f"--input_dir={settings.input_dir} has no {', '.join(missing)}. "
            "Run these tasks with --do_predict, or pack what is there with "
            "--allow_missing."
        )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in found.items():
            rows = files.read_bytes(path)
            if not rows.startswith(_HEADER):
                raise errors.UserError(
                    f"{path} is not a prediction file: its first row is not "
                    "'index<TAB>prediction'. Predict the task again."
                )
            # Without the time of day: equal predictions, equal bytes. A bare
            # ZipInfo says that its file is stored, and wins over the archive.
            archive.writestr(zipfile.ZipInfo(name), rows, zipfile.ZIP_DEFLATED)
            logging.info("%s: %s, %d rows", name, path, rows.count(b"\n") - 1)
    with files.replace_atomically(settings.output_file) as stream:
        stream.write(content.getvalue())
    if missing:
        logging.warning("Without %s", ", ".join(missing))


def find_files(folder: str) -> dict[str, str]:
    """Return name and path of the leaderboard's files below a folder.

    Raises:
        errors.UserError: One is there several times.
    """
    found = {}
    for name in NAMES:
        paths = [
            path
            for pattern in (name, os.path.join("*", name))
            for path in sorted(
                glob.glob(os.path.join(glob.escape(folder), pattern))
            )
        ]
        if len(paths) > 1:
            raise errors.UserError(
                f"--input_dir={folder} has {name} several times: "
                f"{', '.join(paths)}. Remove all but one, or name a folder "
                "that has one only."
            )
        if paths:
            found[name] = paths[0]
    return found


if __name__ == "__main__":
    options.run_script(run, ZipOptions)
