"""The folder of a run: what is in it, and that it belongs to one run only.

run_options.json    program and options of the run
albert_config.json  architecture
spm.model           the vocabulary, when the run knows it
model.ckpt-N.*      checkpoints; model.ckpt-best.* the best evaluated one
metrics.jsonl       every number that was logged
train/, eval/       TensorBoard summaries
run_card.md         the page that describes the run, with learning_curves.png
"""

import dataclasses
import json
import os
from typing import Any

from albert_tf import checkpoints, errors, files, modeling, options

OPTIONS_NAME = "run_options.json"
CONFIG_NAME = "albert_config.json"
VOCABULARY_NAME = "spm.model"


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run's folder says about the run.

    Attributes:
        folder: Path of the folder.
        program: Name of the script, such as `run_pretraining`.
        options: Its options by name.
        config: The architecture.
    """

    folder: str
    program: str
    options: dict[str, Any]
    config: modeling.AlbertConfig

    @property
    def vocabulary(self) -> str:
        """Path of the folder's copy of the vocabulary."""
        return os.path.join(self.folder, VOCABULARY_NAME)


def claim(
    folder: str,
    program: str,
    settings: Any,
    config: modeling.AlbertConfig,
    spm_model_file: str | None,
) -> None:
    """Make the folder this run's, or make sure that it already is.

    Options declared with `may_change` may differ from those of an earlier
    start; the newest values are kept.

    Args:
        folder: The `--output_dir`.
        program: Name of the script.
        settings: Its options object.
        config: The architecture.
        spm_model_file: Vocabulary to copy into the folder, if known.

    Raises:
        errors.UserError: The folder belongs to another run, or holds
            checkpoints of an unknown one. Nothing is overwritten.
    """
    current = options.to_dict(settings)
    trained = is_trained(folder)
    known = files.exists(os.path.join(folder, OPTIONS_NAME))
    # A start that failed before its first checkpoint leaves nothing to protect.
    if trained and known:
        previous = read(folder)
        lines = options.differences(type(settings), previous.options, current)
        if previous.program != program:
            lines = [f"  it was made by {previous.program}, not {program}"]
        if previous.config != config:
            lines.append("  its albert_config.json differs")
        if spm_model_file and _differs(spm_model_file, previous.vocabulary):
            lines.append(f"  its vocabulary is not {spm_model_file}")
        if lines:
            raise errors.UserError(
                f"--output_dir={folder} belongs to another run:\n"
                + "\n".join(lines)
                + "\nRepeat its options to continue it, or choose another "
                "--output_dir."
            )
    elif trained:
        raise errors.UserError(
            f"--output_dir={folder} holds checkpoints but no {OPTIONS_NAME}, "
            "so it cannot be continued safely. Choose another --output_dir; to "
            "start from those weights, name them as --init_checkpoint."
        )
    files.make_folder(folder)
    content = {"program": program, "options": current}
    text = json.dumps(content, indent=2, sort_keys=True) + "\n"
    files.write_text(os.path.join(folder, CONFIG_NAME), config.to_json())
    if spm_model_file:
        with files.replace_atomically(
            os.path.join(folder, VOCABULARY_NAME)
        ) as stream:
            stream.write(files.read_bytes(spm_model_file))
    files.write_text(os.path.join(folder, OPTIONS_NAME), text)


def is_trained(folder: str) -> bool:
    """Tell whether a folder holds checkpoints, of a run or of a release."""
    return any(
        files.exists(os.path.join(folder, name))
        for name in ("checkpoint", f"{checkpoints.BEST_NAME}.index")
    )


def _differs(path: str, known: str) -> bool:
    return files.exists(known) and files.sha256(path) != files.sha256(known)


def check_vocabulary(spm_model_file: str, init_checkpoint: str) -> None:
    """Make sure that a checkpoint was trained with this vocabulary, if known.

    Raises:
        errors.UserError: Beside the checkpoint lies another vocabulary.
    """
    known = os.path.join(os.path.dirname(init_checkpoint), VOCABULARY_NAME)
    if _differs(spm_model_file, known):
        raise errors.UserError(
            f"--spm_model_file={spm_model_file} is not the vocabulary that "
            f"--init_checkpoint={init_checkpoint} was trained with. Use "
            f"{known}."
        )


def read(folder: str) -> Run:
    """Read what a run's folder says.

    Raises:
        errors.UserError: It is not the folder of a run.
    """
    path = os.path.join(folder, OPTIONS_NAME)
    if not files.exists(path):
        raise errors.UserError(
            f"{folder} is not the folder of a run: it has no {OPTIONS_NAME}. "
            "Name the --output_dir of run_pretraining or run_classifier."
        )
    try:
        content = json.loads(files.read_bytes(path))
        program, values = content["program"], dict(content["options"])
    except (ValueError, KeyError, TypeError):
        raise errors.UserError(
            f"{path} is damaged. Choose another folder, or remove this one if "
            "nothing in it is needed."
        ) from None
    config = modeling.AlbertConfig.from_json_file(
        os.path.join(folder, CONFIG_NAME)
    )
    return Run(folder, program, values, config)
