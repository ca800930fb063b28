"""The folder of a run; it belongs to one run only.

run_options.json    program, options and vocabulary (SHA-256) of the run
albert_config.json  architecture
spm.model           the vocabulary, when the run knows it (or vocab.txt),
                    and spm.normalization.json (or vocab.normalization.json)
model.ckpt-N.*      checkpoints; model.ckpt-best.* the best evaluated one
metrics.jsonl       every number that was logged
train/, eval/       TensorBoard summaries
run_card.md         the page that describes the run, with learning_curves.png
                    and confusion_SPLIT.png, whose numbers are in .json
"""

import contextlib
import dataclasses
import fnmatch
import hashlib
import itertools
import os
import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from albert_tf.common import (
    errors,
    files,
    folder_lock,
    options,
    outputs,
    scores,
    strict_json,
)
from albert_tf.data import arrangements, manifests
from albert_tf.model.checkpoints import (
    checkpoint_files,
    huggingface,
    keras_hub,
    restoring,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.text import huggingface_rules, normalization, tokenization
from albert_tf.training import run_log

OPTIONS_NAME = "run_options.json"
CONFIG_NAME = checkpoint_files.CONFIG_NAME
VOCABULARY_NAMES = tokenization.VOCABULARY_NAMES
_PATTERN = re.compile(r"[*?\[\]\\]")  # In the name of a folder.
_MARKERS = "markers_sha256"  # Key among the options.
# What runs and ensembles write, besides checkpoints, files with a number or key
# in their names, and what they have copied.
_RESULTS = (
    *("metrics.jsonl", "run_card.md", "learning_curves.png", "scores.*"),
    "confusion_*",
    *("*_results.txt", "*.tsv", "*_outputs.npz"),
    *("*predictions.json", "*predictions.jsonl", "null_odds.json"),
)


@dataclasses.dataclass(frozen=True)
class Run:
    """What the folder of a run says about it."""

    folder: str
    program: str
    options: dict[str, Any]
    config: AlbertConfig
    vocab_sha256: str | None = None  # None: not known, as in earlier versions.
    # What the run of a task has found out: see `finetuning.base.Facts`.
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def vocabulary(self) -> tokenization.VocabularyOptions:
        """The folder's copy of the vocabulary, with the run's settings."""
        values = {**self.options, **dict.fromkeys(VOCABULARY_NAMES)}
        used = [n for n in VOCABULARY_NAMES if self.options.get(n)][:1]
        for name, path in find_vocabularies(self.folder).items():
            if name in used or not used:  # Not what a failed start left.
                values[name] = path
        vocabulary = options.from_dict(tokenization.VocabularyOptions, values)
        run_hashes = {self.vocab_sha256} if self.vocab_sha256 else set()
        copy = f"the vocabulary {vocabulary.path}"
        manifests.check_vocabularies(
            {
                f"the model in {self.folder}": run_hashes,
                copy: set().union(*vocab_hashes(vocabulary).values()),
            }
        )
        return vocabulary


def folder_of(checkpoint: str) -> str:
    """Return the folder that a checkpoint is in, or that the path itself is."""
    if tf.io.gfile.isdir(checkpoint):
        return checkpoint
    return os.path.dirname(checkpoint)


def find_vocabularies(folder: str) -> dict[str, str]:
    """Return option name and path of the vocabulary files in a folder.

    The folder is that of a run or a release, or a checkpoint in it.
    """
    folder = folder_of(folder)
    names = {**VOCABULARY_NAMES}
    if huggingface.is_folder(folder):
        names["spm_model_file"] = huggingface.VOCABULARY_NAME
    is_preset = keras_hub.is_folder(folder)
    if is_preset:
        names = keras_hub.VOCABULARY_NAMES
    paths = {n: files.safe_join(folder, f) for n, f in names.items()}
    present = {name: path for name, path in paths.items() if files.exists(path)}
    rules = files.safe_join(folder, huggingface_rules.TOKENIZER_NAME)
    if not (present or is_preset) and files.exists(rules):
        present[huggingface_rules.option_of(rules)] = rules
    for path in present.values():  # Refuses links out of the folder.
        files.safe_join(
            folder, os.path.basename(normalization.path_beside(path))
        )
    return present


def vocabulary_beside(
    checkpoint: str, vocabulary: tokenization.VocabularyOptions
) -> tuple[tokenization.VocabularyOptions, str]:
    """Return the vocabulary in a checkpoint's folder, and the folder.

    How its text is normalized, the folder of a run says itself; elsewhere it
    is taken from the options `vocabulary`.
    """
    folder = folder_of(checkpoint)
    if is_run(folder):
        return read(folder).vocabulary, folder
    paths = find_vocabularies(folder)
    if len(paths) > 1:  # It is not known which one is right.
        paths = {}
    return options.from_dict(
        tokenization.VocabularyOptions, {**vocabulary.settings, **paths}
    ), folder


def folder_vocab_hashes(folder: str | None) -> set[str]:
    """Return the SHA-256 of what may be the vocabulary of a folder's model.

    That in a run's options, else those of all vocabulary files there; none if
    the folder or checkpoint does not exist.
    """
    is_there = files.exists, checkpoint_files.is_prefix
    if not folder or not any(test(folder) for test in is_there):
        return set()
    folder = folder_of(folder)
    if not is_run(folder):
        folder = scores.best_folder(folder)
    if is_run(folder) and (run_hash := read(folder).vocab_sha256):
        return {run_hash}
    rules = files.safe_join(folder, huggingface_rules.TOKENIZER_NAME)
    paths = find_vocabularies(folder)
    # The model that it was made of, which may be given, has another hash.
    if paths.get("spm_model_file") == rules:
        return set()
    return set(map(files.sha256, paths.values()))


def check_vocabularies(**folders: str | None) -> None:
    """Refuse folders, given by option name, whose vocabularies differ."""
    manifests.check_vocabularies(
        {
            f"`{option}={folder}`": folder_vocab_hashes(folder)
            for option, folder in folders.items()
        }
    )


def vocab_hashes(
    vocabulary: tokenization.VocabularyOptions,
) -> dict[str, set[str]]:
    """Return the SHA-256 of a vocabulary's file; the key is for messages."""
    if not (vocabulary.kind and vocabulary.path):
        return {}
    files.require_file(vocabulary.path, vocabulary.kind)
    name = f"`{vocabulary.kind}={vocabulary.path}`"
    return {name: {files.sha256(vocabulary.path)}}


def vocabulary_copy_paths(folder: str) -> list[str]:
    """Return all paths that `copy_vocabulary` may write."""
    copies = [os.path.join(folder, n) for n in VOCABULARY_NAMES.values()]
    return [*copies, *map(normalization.path_beside, copies)]


def hold(
    folder: str, *, is_wanted: bool
) -> contextlib.AbstractContextManager[Any]:
    """Lock a run's folder for this process; not in workers but the chief."""
    if not is_wanted:
        return contextlib.nullcontext()
    advice = "Choose a place that you may write to"
    if has_checkpoint(folder):
        advice += (
            ". To evaluate the run that is there, or to start from its "
            f"weights, add `init_checkpoint={folder}`"
        )
    return folder_lock.hold(folder, "output_dir", advice=f"{advice}.")


@dataclasses.dataclass(frozen=True)
class RunStart:
    """One start of a command in a run's folder, which may hold earlier work.

    Attributes:
        settings: The options. Those declared with `may_change` may differ from
            those of an earlier start; the newest values are kept.
        record_vocab_hashes: SHA-256 of the vocabularies that the training
            records were written with, by what messages call the records.
        facts: See `Run`.
    """

    folder: str
    program: str
    settings: Any
    config: AlbertConfig
    vocabulary: tokenization.VocabularyOptions
    record_vocab_hashes: Mapping[str, Collection[str]] = dataclasses.field(
        default_factory=dict
    )
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def write_options(self) -> None:
        """Write options, config and a copy of the vocabulary into the folder.

        Later starts compare themselves with them, and exports read them. A
        folder with files of another run or program is refused.
        """
        self.refuse_foreign_files()
        folder, vocabulary = self.folder, self.vocabulary.resolved()
        content: dict[str, Any] = {
            "program": self.program,
            "options": self.checked_options(),
            **({"facts": dict(self.facts)} if self.facts else {}),
        }
        files.make_folder(folder, "output_dir")
        hashes = {**vocab_hashes(vocabulary), **self.record_vocab_hashes}
        if has_checkpoint(folder):
            hashes["earlier start"] = folder_vocab_hashes(folder)
        # `checked_options` has found all of them equal.
        for sha256 in itertools.chain(*hashes.values()):
            content.setdefault("vocab_sha256", sha256)
        text = strict_json.dumps(content, indent=2, sort_keys=True) + "\n"
        files.write_together(
            {
                os.path.join(folder, OPTIONS_NAME): text.encode(),
                os.path.join(
                    folder, CONFIG_NAME
                ): self.config.to_json().encode(),
                **vocabulary_files(vocabulary, folder),
            }
        )

    def refuse_foreign_files(self) -> None:
        """Refuse a folder of no run with files that a run would replace."""
        folder, replaced = self.folder, []
        if not is_run(folder):
            replaced = [os.path.join(folder, OPTIONS_NAME)]
            replaced += [os.path.join(folder, CONFIG_NAME)]
            hashes = set(
                itertools.chain(*vocab_hashes(self.vocabulary).values())
            )
            is_there = tf.io.gfile.isdir(folder)  # Else the parent is searched.
            copies = find_vocabularies(folder) if is_there else {}
            replaced += [
                path
                for path in copies.values()
                if files.sha256(path) not in hashes
            ]
        # Checkpoints of another run are refused by `checked_options`.
        is_own = is_run(folder) or has_checkpoint(folder)
        refuse_foreign_results(folder, self.settings, replaced, is_own=is_own)

    def checked_options(self) -> dict[str, Any]:
        """Return the options to write; refuse a folder of another run.

        Returns:
            All options, by name, and the settings of the text's normalization;
            a setting that is not given is that of the earlier start.
        """
        if not has_checkpoint(self.folder):  # There is nothing to protect.
            return self._current_options({})
        target = f"`output_dir={self.folder}`"
        if not is_run(self.folder):
            raise errors.UserError(
                f"{target} holds checkpoints but no {OPTIONS_NAME}, so it "
                "cannot be continued safely. Choose another `output_dir`; to "
                "start from those weights, name them as `init_checkpoint`."
            )
        previous = read(self.folder)
        current = self._current_options(previous.options)
        outputs.require_same(
            f"{target} belongs to another run",
            self._differences(previous, current),
            "Repeat its options to continue it, or choose another "
            "`output_dir`.",
        )
        manifests.check_vocabularies(
            {
                target: folder_vocab_hashes(self.folder),
                **vocab_hashes(self.vocabulary),
                **self.record_vocab_hashes,
            }
        )
        return current

    def _current_options(self, previous: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `checked_options` does, with a hash of the markers."""
        current = options.to_dict(self.settings)
        for name, value in self.vocabulary.resolved().settings.items():
            value = previous.get(name) if value is None else value
            if value is not None:
                current[name] = value
        if markers := current.get("markers_file"):  # Lines are the labels.
            content = repr(arrangements.read_markers(markers))
            current[_MARKERS] = hashlib.sha256(content.encode()).hexdigest()
        return current

    def _differences(
        self, previous: Run, current: Mapping[str, Any]
    ) -> list[str]:
        """Return a line for each difference from an earlier start."""
        if previous.program != self.program:
            lines = [f"it was made by {previous.program}, not {self.program}"]
        else:
            lines = options.differences(
                type(self.settings), previous.options, current
            )
            markers = current.get(_MARKERS)
            if previous.options.get(_MARKERS, markers) != markers:
                lines.append("`markers_file` had other markers")
            facts = previous.facts or _facts_among(previous.options)
            lines += outputs.changes({**self.facts, **facts}, self.facts)
        # Some options, such as the pooling, are also keys of the config.
        reported = [line.split()[0].strip("-") for line in lines]
        before, now = (
            {k: v for k, v in vars(config).items() if k not in reported}
            for config in (previous.config, self.config)
        )
        changed_keys = outputs.changes(before, now)
        return lines + [f"{line} (in {CONFIG_NAME})" for line in changed_keys]


def refuse_foreign_results(
    folder: str, settings: Any, more: Iterable[str] = (), *, is_own: bool
) -> None:
    """Refuse a folder with files that a run or an ensemble would replace.

    Args:
        more: Files that are written besides results such as scores.
        is_own: Whether an earlier start of this run wrote what is there.
    """
    paths = [
        os.path.join(folder, name)
        for name in files.list_folder(folder)
        if any(fnmatch.fnmatch(name, pattern) for pattern in _RESULTS)
    ]
    outputs.check(settings, "output_dir", [*more, *paths], is_own=is_own)


def copy_vocabulary(
    vocabulary: tokenization.VocabularyOptions, folder: str
) -> str | None:
    """Copy a vocabulary and its normalization file into a folder.

    Returned is the name of the copy, or None without a vocabulary.
    """
    contents = vocabulary_files(vocabulary, folder)
    files.write_together(contents)
    return next(map(os.path.basename, contents), None)


def vocabulary_files(
    vocabulary: tokenization.VocabularyOptions, folder: str
) -> dict[str, bytes]:
    """Return path and content of a folder's copy of a vocabulary."""
    if not vocabulary.kind or not vocabulary.path:
        return {}
    copy = os.path.join(folder, VOCABULARY_NAMES[vocabulary.kind])
    tokenization.load(vocabulary)  # Refuses a file that is no vocabulary.
    rules = vocabulary.normalization.to_json().encode()
    return {
        copy: files.read_bytes(vocabulary.path),
        normalization.path_beside(copy): rules,
    }


def _facts_among(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a run of an earlier version: they were options."""
    facts = {name: v for name, v in values.items() if v is not None}
    labels = facts.get("labels") or facts.get("tags")
    if labels:
        separator = "\t" if "\t" in labels else ","
        facts["labels"] = [label.strip() for label in labels.split(separator)]
    return facts


def check_same_data(folder: str, data_digest: str) -> None:
    """Refuse to continue a run whose log has the digest of other data."""
    if not has_checkpoint(folder):
        return
    lines = run_log.read(folder)
    digests = [x["training_data"] for x in lines if "training_data" in x]
    if digests and digests[-1] != data_digest:
        raise errors.UserError(
            f"`output_dir={folder}` holds a run that was trained on other "
            "records, or on the same files in another order or without their "
            "manifests. Continue with the same data; or start a new run from "
            f"its weights, with `init_checkpoint={folder}` and another "
            "`output_dir`."
        )


def is_run(folder: str) -> bool:
    """Tell whether a folder is a run's, from its `run_options.json`."""
    return files.exists(os.path.join(folder, OPTIONS_NAME))


def is_finetuned(folder: str) -> bool:
    """Tell whether a folder is that of a finetuned run."""
    return is_run(folder) and "task_name" in read(folder).options


def find_first_run(folder: str) -> str | None:
    """Return `folder` if it is a run, else its `run_1` if that is; or None."""
    folders = folder, os.path.join(folder, "run_1")
    return next(filter(is_run, folders), None)


def has_checkpoint(folder: str) -> bool:
    """Tell whether a folder holds checkpoints, of a run or of a release."""
    return bool(checkpoint_files.numbered(folder)) or any(
        files.exists(os.path.join(folder, name))
        for name in ("checkpoint", f"{checkpoint_files.BEST_NAME}.index")
    )


def no_weights_error(folder: str) -> errors.UserError:
    return errors.UserError(
        f"`output_dir={folder}` has no checkpoint to evaluate. Set `do_train`, "
        "name the folder of a run, or give an `init_checkpoint` that holds all "
        "weights, heads included."
    )


def check_start(
    folder: str,
    init_checkpoint: str | None,
    vocabulary: tokenization.VocabularyOptions,
    record_vocab_hashes: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> None:
    """Refuse a bad folder name, and an `init_checkpoint` that does not fit."""
    if match := _PATTERN.search(folder):
        raise errors.UserError(
            f"`output_dir={folder}` has {match[0]!r} in its name, which "
            "TensorFlow reads as a pattern: it could remove checkpoints of "
            "other folders, or not find its own. Choose a name without any of "
            "*?[]\\."
        )
    hashes = {**vocab_hashes(vocabulary), **record_vocab_hashes}
    if init_checkpoint and not has_checkpoint(folder):
        checkpoint = checkpoint_files.find(init_checkpoint)
        hashes[f"`init_checkpoint={init_checkpoint}`"] = folder_vocab_hashes(
            checkpoint
        )
        _check_normalization(vocabulary, folder_of(checkpoint))
    manifests.check_vocabularies(hashes)
    if init_checkpoint and not has_checkpoint(folder):
        restoring.require_finite_weights(init_checkpoint)


def _check_normalization(
    vocabulary: tokenization.VocabularyOptions, folder: str
) -> None:
    """Refuse settings of the normalization that differ from a run's."""
    if not is_run(folder):
        return
    run_settings = read(folder).vocabulary.resolved().settings
    for name, value in vocabulary.resolved().settings.items():
        run_value = run_settings[name]
        if None not in (value, run_value) and value != run_value:
            raise errors.UserError(
                f"`{name}={str(value).lower()}` is not what the run of "
                f"`init_checkpoint={folder}` was trained with: its text was "
                f"normalized with {name}={str(run_value).lower()}. Use that, "
                "or its copy of the vocabulary, beside which a file says so."
            )


def read(folder: str, option: str = "run_dir") -> Run:
    """Read the folder of a run; of several runs, that of the best one."""
    files.refuse_file(folder, option)
    path = files.safe_join(folder, OPTIONS_NAME)
    if not files.exists(path):
        best = scores.best_folder(folder)
        if best != folder:
            return read(best, option)
        raise errors.UserError(
            f"`{option}={folder}` is not the folder of a run: it has no "
            f"{OPTIONS_NAME}. Name the output folder of run_pretraining, or of "
            "a command that finetunes."
        )
    try:
        content = strict_json.loads(files.read_bytes(path))
        program, values = content["program"], dict(content["options"])
        vocab_sha256 = content.get("vocab_sha256")
        facts = dict(content.get("facts", {}))
        if not isinstance(vocab_sha256, str | None):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise errors.UserError(
            f"{path} is damaged. Choose another folder, or remove this one if "
            "nothing in it is needed."
        ) from None
    config = AlbertConfig.from_json_file(files.safe_join(folder, CONFIG_NAME))
    _check_options(values, config, path)
    return Run(folder, program, values, config, vocab_sha256, facts)


def _check_options(
    values: dict[str, Any], config: AlbertConfig, path: str
) -> None:
    """Refuse a task name or a length that a damaged file may hold."""
    name, length = values.get("task_name", ""), values.get("max_seq_length", 1)
    longest = config.max_position_embeddings
    if not isinstance(name, str):
        raise errors.UserError(f"{path}: task_name is {name!r}, not a text.")
    if not isinstance(length, int) or not 0 < length <= longest:
        raise errors.UserError(
            f"{path}: max_seq_length is {length!r}, not a whole number from 1 "
            f"to {longest}, the positions of {CONFIG_NAME}."
        )
