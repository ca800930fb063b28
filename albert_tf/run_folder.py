"""The folder of a run: what is in it, and that it belongs to one run only.

run_options.json    program and options of the run
albert_config.json  architecture
spm.model           the vocabulary, when the run knows it (or vocab.txt)
model.ckpt-N.*      checkpoints; model.ckpt-best.* the best evaluated one
metrics.jsonl       every number that was logged
train/, eval/       TensorBoard summaries
run_card.md         the page that describes the run, with learning_curves.png
"""

import dataclasses
import os
from typing import Any

import tensorflow as tf

from albert_tf import (
    checkpoints,
    errors,
    files,
    huggingface,
    modeling,
    options,
    scores,
    strict_json,
    tokenization,
)

OPTIONS_NAME = "run_options.json"
CONFIG_NAME = "albert_config.json"
# The folder's copy of the vocabulary, by the option that named it.
VOCABULARY_NAMES = {"spm_model_file": "spm.model", "vocab_file": "vocab.txt"}


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
    def vocabulary(self) -> tokenization.VocabularyOptions:
        """The folder's copy of the vocabulary, with the run's settings."""
        values = {**self.options, **dict.fromkeys(VOCABULARY_NAMES)}
        named = [n for n in VOCABULARY_NAMES if self.options.get(n)][:1]
        for name, path in vocabularies(self.folder).items():
            if name in named or not named:  # Not what a failed start left.
                values[name] = path
        return options.from_dict(tokenization.VocabularyOptions, values)


def folder_of(checkpoint: str) -> str:
    """Return the folder of a checkpoint; a folder is its own."""
    if tf.io.gfile.isdir(checkpoint):
        return checkpoint
    return os.path.dirname(checkpoint)


def vocabularies(folder: str) -> dict[str, str]:
    """Return option and path of the vocabularies in a folder, or beside it.

    Args:
        folder: That of a run or a release; or a checkpoint in it.
    """
    folder = folder_of(folder)
    names = {**VOCABULARY_NAMES}
    if huggingface.is_folder(folder):
        names["spm_model_file"] = huggingface.VOCABULARY_NAME
    paths = {n: os.path.join(folder, f) for n, f in names.items()}
    return {name: path for name, path in paths.items() if files.exists(path)}


def claim(
    folder: str,
    program: str,
    settings: Any,
    config: modeling.AlbertConfig,
    vocabulary: tokenization.VocabularyOptions,
) -> None:
    """Make the folder this run's, or make sure that it already is.

    Options declared with `may_change` may differ from those of an earlier
    start; the newest values are kept.

    Args:
        folder: The `--output_dir`.
        program: Name of the script.
        settings: Its options object.
        config: The architecture.
        vocabulary: Its file is copied into the folder, if one is named.

    Raises:
        errors.UserError: The folder belongs to another run, or holds
            checkpoints of an unknown one. Nothing is overwritten.
    """
    current = options.to_dict(settings)
    check_same(folder, program, settings, config, vocabulary)
    files.make_folder(folder, "output_dir")
    content = {"program": program, "options": current}
    text = strict_json.dumps(content, indent=2, sort_keys=True) + "\n"
    files.write_text(os.path.join(folder, CONFIG_NAME), config.to_json())
    if vocabulary.kind and vocabulary.path:
        name = VOCABULARY_NAMES[vocabulary.kind]
        with files.replace_atomically(
            os.path.join(folder, name), through_link=False
        ) as stream:
            stream.write(files.read_bytes(vocabulary.path))
    files.write_text(os.path.join(folder, OPTIONS_NAME), text)


def check_same(
    folder: str,
    program: str,
    settings: Any,
    config: modeling.AlbertConfig,
    vocabulary: tokenization.VocabularyOptions,
) -> None:
    """Make sure that a folder is this run's, or nobody's; see `claim`."""
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
        if _is_another(vocabulary, folder):
            lines.append(f"  its vocabulary is not {vocabulary.path}")
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


def is_trained(folder: str) -> bool:
    """Tell whether a folder holds checkpoints, of a run or of a release."""
    return bool(checkpoints.numbered(folder)) or any(
        files.exists(os.path.join(folder, name))
        for name in ("checkpoint", f"{checkpoints.BEST_NAME}.index")
    )


def _is_another(
    vocabulary: tokenization.VocabularyOptions, folder: str
) -> bool:
    """Tell whether there are others, and not this one; see `vocabularies`."""
    known = vocabularies(folder)
    if not known or vocabulary.path is None:
        return False
    wanted = files.sha256(vocabulary.path)
    return all(files.sha256(path) != wanted for path in known.values())


def check_vocabulary(
    vocabulary: tokenization.VocabularyOptions, init_checkpoint: str
) -> None:
    """Make sure that a checkpoint was trained with this vocabulary, if known.

    Raises:
        errors.UserError: Beside the checkpoint lies another vocabulary.
    """
    if _is_another(vocabulary, init_checkpoint):
        known = ", ".join(vocabularies(init_checkpoint).values())
        raise errors.UserError(
            f"--{vocabulary.kind}={vocabulary.path} is not the vocabulary that "
            f"--init_checkpoint={init_checkpoint} was trained with. Use "
            f"{known}."
        )


def check_start(
    folder: str,
    init_checkpoint: str | None,
    vocabulary: tokenization.VocabularyOptions,
) -> None:
    """Look for the checkpoint that a run is to start from, if it starts anew.

    Raises:
        errors.UserError: There is none, or it has another vocabulary.
    """
    if init_checkpoint and not is_trained(folder):
        check_vocabulary(vocabulary, checkpoints.find(init_checkpoint))


def read(folder: str) -> Run:
    """Read what a run's folder says; that of several runs means the best one.

    Raises:
        errors.UserError: It is not the folder of a run.
    """
    path = os.path.join(folder, OPTIONS_NAME)
    if not files.exists(path):
        best = scores.best_folder(folder)
        if best != folder:
            return read(best)
        raise errors.UserError(
            f"{folder} is not the folder of a run: it has no {OPTIONS_NAME}. "
            "Name the --output_dir of run_pretraining, run_classifier, "
            "run_squad or run_race."
        )
    try:
        content = strict_json.loads(files.read_bytes(path))
        program, values = content["program"], dict(content["options"])
    except (ValueError, KeyError, TypeError):
        raise errors.UserError(
            f"{path} is damaged. Choose another folder, or remove this one if "
            "nothing in it is needed."
        ) from None
    config = modeling.AlbertConfig.from_json_file(
        os.path.join(folder, CONFIG_NAME)
    )
    _check_task(values, config, path)
    return Run(folder, program, values, config)


def _check_task(
    values: dict[str, Any], config: modeling.AlbertConfig, path: str
) -> None:
    """Refuse what no task can be made of; the file may be from anywhere."""
    name, length = values.get("task_name", ""), values.get("max_seq_length", 1)
    longest = config.max_position_embeddings
    if not isinstance(name, str):
        raise errors.UserError(f"{path}: task_name is {name!r}, not a text.")
    if not isinstance(length, int) or not 0 < length <= longest:
        raise errors.UserError(
            f"{path}: max_seq_length is {length!r}, not a whole number from 1 "
            f"to {longest}, the positions of {CONFIG_NAME}."
        )
