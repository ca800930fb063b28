"""The folder of a run; it belongs to one run only.

run_options.json    program and options of the run
albert_config.json  architecture
spm.model           the vocabulary, when the run knows it (or vocab.txt),
                    and spm.normalization.json (or vocab.normalization.json)
model.ckpt-N.*      checkpoints; model.ckpt-best.* the best evaluated one
metrics.jsonl       every number that was logged
train/, eval/       TensorBoard summaries
run_card.md         the page that describes the run, with learning_curves.png
"""

import contextlib
import dataclasses
import os
from typing import Any

import tensorflow as tf

from albert_tf.common import (
    errors,
    files,
    folder_lock,
    options,
    scores,
    strict_json,
)
from albert_tf.model.checkpoints import checkpoint_files, huggingface
from albert_tf.model.config import AlbertConfig
from albert_tf.text import normalization, tokenization

OPTIONS_NAME = "run_options.json"
CONFIG_NAME = "albert_config.json"
# The folder's copy of the vocabulary, by the option that named it.
VOCABULARY_NAMES = {"spm_model_file": "spm.model", "vocab_file": "vocab.txt"}


@dataclasses.dataclass(frozen=True)
class Run:
    """What the folder of a run says about it."""

    folder: str
    program: str
    options: dict[str, Any]
    config: AlbertConfig

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
    paths = {n: files.in_folder(folder, f) for n, f in names.items()}
    found = {name: path for name, path in paths.items() if files.exists(path)}
    for path in found.values():
        files.in_folder(
            folder, os.path.basename(normalization.path_beside(path))
        )
    return found


def hold(
    folder: str, *, is_wanted: bool
) -> contextlib.AbstractContextManager[None]:
    """Lock the folder of a run, if wanted: one of several workers does."""
    if not is_wanted:
        return contextlib.nullcontext()
    advice = "Choose a place that you may write to"
    if is_trained(folder):
        advice += (
            ". To evaluate the run that is there, or to start from its "
            f"weights, add `init_checkpoint={folder}`"
        )
    return folder_lock.hold(folder, "output_dir", advice=f"{advice}.")


def claim(
    folder: str,
    program: str,
    settings: Any,
    config: AlbertConfig,
    vocabulary: tokenization.VocabularyOptions,
) -> None:
    """Write the options of a run into its folder, unless it is another's.

    Options declared with `may_change` may differ from those of an earlier
    start; the newest values are kept. The vocabulary's file is copied, if one
    is named. Nothing of another run, or of an unknown one, is overwritten.
    """
    vocabulary = vocabulary.resolved()
    check_same(folder, program, settings, config, vocabulary)
    files.make_folder(folder, "output_dir")
    current = _options_now(settings, vocabulary)
    content = {"program": program, "options": current}
    text = strict_json.dumps(content, indent=2, sort_keys=True) + "\n"
    files.write_text(os.path.join(folder, CONFIG_NAME), config.to_json())
    copy_vocabulary(vocabulary, folder)
    files.write_text(os.path.join(folder, OPTIONS_NAME), text)


def _options_now(
    settings: Any, vocabulary: tokenization.VocabularyOptions
) -> dict[str, Any]:
    """Return all options, with what is known of the text's normalization."""
    known = vocabulary.settings.items()
    found = {name: value for name, value in known if value is not None}
    return {**options.to_dict(settings), **found}


def copy_vocabulary(
    vocabulary: tokenization.VocabularyOptions, folder: str
) -> str | None:
    """Copy a vocabulary and its description into a folder.

    Returns:
        The name of the copy, one of `VOCABULARY_NAMES`; None without a
        vocabulary.
    """
    if not vocabulary.kind or not vocabulary.path:
        return None
    name = VOCABULARY_NAMES[vocabulary.kind]
    copy = os.path.join(folder, name)
    tokenization.load(vocabulary)  # Nothing else is copied.
    content = files.read_bytes(vocabulary.path)
    described = vocabulary.normalization
    with files.replace_atomically(copy, through_link=False) as stream:
        stream.write(content)
    normalization.write(copy, described)
    return name


def check_same(
    folder: str,
    program: str,
    settings: Any,
    config: AlbertConfig,
    vocabulary: tokenization.VocabularyOptions,
) -> None:
    """Make sure that a folder belongs to this run or to none; see `claim`."""
    current = _options_now(settings, vocabulary.resolved())
    trained = is_trained(folder)
    known = is_run(folder)
    # A start that failed before its first checkpoint leaves nothing to protect.
    if trained and known:
        previous = read(folder)
        for name in vocabulary.settings:
            if current.get(name) is None:  # Nothing was said: as before.
                current[name] = previous.options.get(name)
        lines = options.differences(type(settings), previous.options, current)
        if previous.program != program:
            lines = [f"  it was made by {previous.program}, not {program}"]
        before, now = vars(previous.config), vars(config)
        told = [line.split()[0].strip("-") for line in lines]
        lines += [
            f"  {key} was {before[key]!r}, is now {now[key]!r} (in "
            f"{CONFIG_NAME})"
            for key in before
            if before[key] != now[key] and key not in told
        ]
        if _is_another(vocabulary, folder):
            lines.append(f"  its vocabulary is not {vocabulary.path}")
        if lines:
            raise errors.UserError(
                "belongs to another run:\n"
                + "\n".join(lines)
                + "\nRepeat its options to continue it, or choose another "
                "`output_dir`.",
                "output_dir",
                folder,
            )
    elif trained:
        raise errors.UserError(
            f"holds checkpoints but no {OPTIONS_NAME}, so it cannot be "
            "continued safely. Choose another `output_dir`; to start from "
            "those weights, name them as `init_checkpoint`.",
            "output_dir",
            folder,
        )


def is_run(folder: str) -> bool:
    """Tell whether a folder says what run it is of."""
    return files.exists(os.path.join(folder, OPTIONS_NAME))


def is_trained(folder: str) -> bool:
    """Tell whether a folder holds checkpoints, of a run or of a release."""
    return bool(checkpoint_files.numbered(folder)) or any(
        files.exists(os.path.join(folder, name))
        for name in ("checkpoint", f"{checkpoint_files.BEST_NAME}.index")
    )


def no_weights(folder: str) -> errors.UserError:
    """Return the error for a folder without weights to evaluate."""
    return errors.UserError(
        "has no checkpoint to evaluate. Set `do_train`, name the folder of a "
        "run, or give an `init_checkpoint` that holds all weights, heads "
        "included.",
        "output_dir",
        folder,
    )


def _is_another(
    vocabulary: tokenization.VocabularyOptions, folder: str
) -> bool:
    """Tell whether a folder has vocabularies, and not this one."""
    known = vocabularies(folder)
    if not known or vocabulary.path is None:
        return False
    wanted = files.sha256(vocabulary.path)
    return all(files.sha256(path) != wanted for path in known.values())


def check_vocabulary(
    vocabulary: tokenization.VocabularyOptions, init_checkpoint: str
) -> None:
    """Refuse a checkpoint that was trained with another vocabulary."""
    if _is_another(vocabulary, init_checkpoint):
        known = ", ".join(vocabularies(init_checkpoint).values())
        raise errors.UserError(
            "is not the vocabulary that "
            f"`init_checkpoint={init_checkpoint}` was trained with. Use "
            f"{known}.",
            str(vocabulary.kind),
            vocabulary.path,
        )
    _check_normalization(vocabulary, folder_of(init_checkpoint))


def _check_normalization(
    vocabulary: tokenization.VocabularyOptions, folder: str
) -> None:
    """Refuse text that is normalized in another way than that of a run."""
    if not is_run(folder):
        return
    known = read(folder).vocabulary.resolved().settings
    for name, here in vocabulary.resolved().settings.items():
        there = known[name]
        if None not in (here, there) and here != there:
            raise errors.UserError(
                f"is not what the run of `init_checkpoint={folder}` was "
                f"trained with: its text was normalized with {name}="
                f"{str(there).lower()}. Use that, or its copy of the "
                "vocabulary, beside which a file says so.",
                name,
                str(here).lower(),
            )


def check_start(
    folder: str,
    init_checkpoint: str | None,
    vocabulary: tokenization.VocabularyOptions,
) -> None:
    """Check the checkpoint that a new run is to start from."""
    if init_checkpoint and not is_trained(folder):
        check_vocabulary(vocabulary, checkpoint_files.find(init_checkpoint))


def read(folder: str, option: str = "run_dir") -> Run:
    """Read the folder of a run; of several runs, that of the best one."""
    files.refuse_file(folder, option)
    path = files.in_folder(folder, OPTIONS_NAME)
    if not files.exists(path):
        best = scores.best_folder(folder)
        if best != folder:
            return read(best, option)
        raise errors.UserError(
            f"is not the folder of a run: it has no {OPTIONS_NAME}. Name the "
            "output folder of run_pretraining, run_classifier, run_squad or "
            "run_race.",
            option,
            folder,
        )
    try:
        content = strict_json.loads(files.read_bytes(path))
        program, values = content["program"], dict(content["options"])
    except (ValueError, KeyError, TypeError):
        raise errors.UserError(
            f"{path} is damaged. Choose another folder, or remove this one if "
            "nothing in it is needed."
        ) from None
    config = AlbertConfig.from_json_file(files.in_folder(folder, CONFIG_NAME))
    _check_task(values, config, path)
    return Run(folder, program, values, config)


def _check_task(
    values: dict[str, Any], config: AlbertConfig, path: str
) -> None:
    """Refuse values that no task can have; the file may be damaged."""
    name, length = values.get("task_name", ""), values.get("max_seq_length", 1)
    longest = config.max_position_embeddings
    if not isinstance(name, str):
        raise errors.UserError(f"{path}: task_name is {name!r}, not a text.")
    if not isinstance(length, int) or not 0 < length <= longest:
        raise errors.UserError(
            f"{path}: max_seq_length is {length!r}, not a whole number from 1 "
            f"to {longest}, the positions of {CONFIG_NAME}."
        )
