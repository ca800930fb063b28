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
from albert_tf.model.checkpoints import checkpoint_files, huggingface, restoring
from albert_tf.model.config import AlbertConfig
from albert_tf.text import huggingface_rules, normalization, tokenization
from albert_tf.training import run_log

OPTIONS_NAME = "run_options.json"
CONFIG_NAME = checkpoint_files.CONFIG_NAME
# The folder's copy of the vocabulary, by the option that named it.
VOCABULARY_NAMES = {"spm_model_file": "spm.model", "vocab_file": "vocab.txt"}
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
        named = [n for n in VOCABULARY_NAMES if self.options.get(n)][:1]
        for name, path in vocabularies(self.folder).items():
            if name in named or not named:  # Not what a failed start left.
                values[name] = path
        vocabulary = options.from_dict(tokenization.VocabularyOptions, values)
        fingerprints = {self.vocab_sha256} if self.vocab_sha256 else set()
        copy = f"the vocabulary {vocabulary.path}"
        manifests.check_vocabularies(
            {
                f"the model in {self.folder}": fingerprints,
                copy: set().union(*vocabulary_of(vocabulary).values()),
            }
        )
        return vocabulary


def folder_of(checkpoint: str) -> str:
    """Return the folder of a checkpoint; a folder is its own."""
    if tf.io.gfile.isdir(checkpoint):
        return checkpoint
    return os.path.dirname(checkpoint)


def vocabularies(folder: str) -> dict[str, str]:
    """Return option and path of the vocabularies in a folder, or beside it.

    The folder is that of a run or a release, or a checkpoint in it.
    """
    folder = folder_of(folder)
    names = {**VOCABULARY_NAMES}
    if huggingface.is_folder(folder):
        names["spm_model_file"] = huggingface.VOCABULARY_NAME
    paths = {n: files.in_folder(folder, f) for n, f in names.items()}
    present = {name: path for name, path in paths.items() if files.exists(path)}
    rules = files.in_folder(folder, huggingface_rules.TOKENIZER_NAME)
    has_rules = not present and files.exists(rules)
    if has_rules and huggingface_rules.is_wordpiece(rules):
        present["vocab_file"] = rules
    for path in present.values():
        files.in_folder(
            folder, os.path.basename(normalization.path_beside(path))
        )
    return present


def vocabulary_beside(
    checkpoint: str, vocabulary: tokenization.VocabularyOptions
) -> tuple[tokenization.VocabularyOptions, str]:
    """Return the vocabulary in a checkpoint's folder, and the folder.

    The folder of a run also says how the vocabulary is used; else the options
    do.
    """
    folder = folder_of(checkpoint)
    if is_run(folder):
        return read(folder).vocabulary, folder
    paths = vocabularies(folder)
    if len(paths) > 1:  # It is not known which one is right.
        paths = {}
    return options.from_dict(
        tokenization.VocabularyOptions, {**vocabulary.settings, **paths}
    ), folder


def known_vocabularies(folder: str | None) -> set[str]:
    """Return the SHA-256 of what may be the vocabulary of a folder.

    What a run has written counts, and else the files; see `vocabularies`. A
    checkpoint that is missing has none.
    """
    is_there = files.exists, checkpoint_files.is_prefix
    if not folder or not any(test(folder) for test in is_there):
        return set()
    folder = folder_of(folder)
    if not is_run(folder):
        folder = scores.best_folder(folder)
    if is_run(folder) and (known := read(folder).vocab_sha256):
        return {known}
    return set(map(files.sha256, vocabularies(folder).values()))


def check_vocabularies(**folders: str | None) -> None:
    """Refuse folders of several vocabularies, which options name."""
    manifests.check_vocabularies(
        {
            f"`{option}={folder}`": known_vocabularies(folder)
            for option, folder in folders.items()
        }
    )


def vocabulary_of(
    vocabulary: tokenization.VocabularyOptions,
) -> dict[str, set[str]]:
    """Return the SHA-256 of a vocabulary, by the option that names it."""
    if not (vocabulary.kind and vocabulary.path):
        return {}
    files.require_file(vocabulary.path, vocabulary.kind)
    name = f"`{vocabulary.kind}={vocabulary.path}`"
    return {name: {files.sha256(vocabulary.path)}}


def vocabulary_paths(folder: str) -> list[str]:
    """Return all paths that `copy_vocabulary` may write."""
    copies = [os.path.join(folder, n) for n in VOCABULARY_NAMES.values()]
    return [*copies, *map(normalization.path_beside, copies)]


def hold(
    folder: str, *, is_wanted: bool
) -> contextlib.AbstractContextManager[Any]:
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


@dataclasses.dataclass(frozen=True)
class Start:
    """A start of a run in a folder, which may hold an earlier start's work.

    Attributes:
        settings: The options. Those declared with `may_change` may differ from
            those of an earlier start; the newest values are kept.
        of_records: What they know of their vocabulary, see
            `manifests.check_vocabularies`.
        facts: See `Run`.
    """

    folder: str
    program: str
    settings: Any
    config: AlbertConfig
    vocabulary: tokenization.VocabularyOptions
    of_records: Mapping[str, Collection[str]] = dataclasses.field(
        default_factory=dict
    )
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def claim(self) -> None:
        """Write the options of the run into its folder, unless it is another's.

        The vocabulary's file is copied, if one is named. Nothing of another
        run, or of an unknown one, is overwritten.
        """
        self.require_free()
        folder, vocabulary = self.folder, self.vocabulary.resolved()
        content: dict[str, Any] = {
            "program": self.program,
            "options": self.check_same(),
            **({"facts": dict(self.facts)} if self.facts else {}),
        }
        files.make_folder(folder, "output_dir")
        fingerprints = {**vocabulary_of(vocabulary), **self.of_records}
        if is_trained(folder):
            fingerprints["earlier"] = known_vocabularies(folder)
        for sha256 in itertools.chain(*fingerprints.values()):
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

    def require_free(self) -> None:
        """Refuse a folder of no run with files that a run would replace."""
        folder, others = self.folder, []
        if not is_run(folder):
            others = [os.path.join(folder, OPTIONS_NAME)]
            others += [os.path.join(folder, CONFIG_NAME)]
            same = set(
                itertools.chain(*vocabulary_of(self.vocabulary).values())
            )
            # Not what is beside a folder that is missing.
            copies = vocabularies(folder) if tf.io.gfile.isdir(folder) else {}
            others += [
                path
                for path in copies.values()
                if files.sha256(path) not in same
            ]
        is_own = is_run(folder) or is_trained(folder)  # See `check_same`.
        refuse_foreign(folder, self.settings, others, is_own=is_own)

    def check_same(self) -> dict[str, Any]:
        """Make sure that the folder belongs to this run or to none.

        Returns:
            All options, with what is known of the text's normalization. What is
            not said of it is as in the earlier run.
        """
        if not is_trained(self.folder):  # There is nothing to protect.
            return self._options({})
        place = f"`output_dir={self.folder}`"
        if not is_run(self.folder):
            raise errors.UserError(
                f"{place} holds checkpoints but no {OPTIONS_NAME}, so it "
                "cannot be continued safely. Choose another `output_dir`; to "
                "start from those weights, name them as `init_checkpoint`."
            )
        previous = read(self.folder)
        current = self._options(previous.options)
        outputs.require_same(
            f"{place} belongs to another run",
            self._differences(previous, current),
            "Repeat its options to continue it, or choose another "
            "`output_dir`.",
        )
        manifests.check_vocabularies(
            {
                place: known_vocabularies(self.folder),
                **vocabulary_of(self.vocabulary),
                **self.of_records,
            }
        )
        return current

    def _options(self, previous: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options, and the markers' fingerprint."""
        current = options.to_dict(self.settings)
        for name, value in self.vocabulary.resolved().settings.items():
            value = previous.get(name) if value is None else value
            if value is not None:
                current[name] = value
        if markers := current.get("markers_file"):  # They are the labels.
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
        named = [line.split()[0].strip("-") for line in lines]
        before, now = (
            {k: v for k, v in vars(config).items() if k not in named}
            for config in (previous.config, self.config)
        )
        place = f"(in {CONFIG_NAME})"
        return lines + [f"{x} {place}" for x in outputs.changes(before, now)]


def refuse_foreign(
    folder: str, settings: Any, others: Iterable[str] = (), *, is_own: bool
) -> None:
    """Refuse a folder with files that a run or an ensemble would replace.

    Args:
        others: Paths that are written besides results.
        is_own: Whether what is there is an earlier start's.
    """
    paths = [
        os.path.join(folder, name)
        for name in files.list_folder(folder)
        if any(fnmatch.fnmatch(name, pattern) for pattern in _RESULTS)
    ]
    outputs.claim(settings, "output_dir", [*others, *paths], is_own=is_own)


def copy_vocabulary(
    vocabulary: tokenization.VocabularyOptions, folder: str
) -> str | None:
    """Copy a vocabulary and its description into a folder.

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
    tokenization.load(vocabulary)  # Nothing else is copied.
    described = vocabulary.normalization.to_json().encode()
    return {
        copy: files.read_bytes(vocabulary.path),
        normalization.path_beside(copy): described,
    }


def _facts_among(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that earlier versions wrote among the options."""
    facts = {name: v for name, v in values.items() if v is not None}
    labels = facts.get("labels") or facts.get("tags")
    if labels:
        separator = "\t" if "\t" in labels else ","
        facts["labels"] = [label.strip() for label in labels.split(separator)]
    return facts


def check_same_data(folder: str, training_data: str) -> None:
    """Refuse to continue a run with other data than it was trained on."""
    if not is_trained(folder):
        return
    lines = run_log.read(folder)
    keys = [f["training_data"] for f in lines if "training_data" in f]
    if keys and keys[-1] != training_data:
        raise errors.UserError(
            f"`output_dir={folder}` holds a run that was trained on other "
            "records, or on the same files in another order or without their "
            "manifests. Continue with the same data; or start a new run from "
            f"its weights, with `init_checkpoint={folder}` and another "
            "`output_dir`."
        )


def is_run(folder: str) -> bool:
    """Tell whether a folder says what run it is of."""
    return files.exists(os.path.join(folder, OPTIONS_NAME))


def first(folder: str) -> str | None:
    """Return the folder of a run, or of the first of several; None for none."""
    folders = folder, os.path.join(folder, "run_1")
    return next(filter(is_run, folders), None)


def is_trained(folder: str) -> bool:
    """Tell whether a folder holds checkpoints, of a run or of a release."""
    return bool(checkpoint_files.numbered(folder)) or any(
        files.exists(os.path.join(folder, name))
        for name in ("checkpoint", f"{checkpoint_files.BEST_NAME}.index")
    )


def no_weights(folder: str) -> errors.UserError:
    return errors.UserError(
        f"`output_dir={folder}` has no checkpoint to evaluate. Set `do_train`, "
        "name the folder of a run, or give an `init_checkpoint` that holds all "
        "weights, heads included."
    )


def check_start(
    folder: str,
    init_checkpoint: str | None,
    vocabulary: tokenization.VocabularyOptions,
    of_records: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> None:
    """Check a run's folder, and what a new run is to start from."""
    if match := _PATTERN.search(folder):
        raise errors.UserError(
            f"`output_dir={folder}` has {match[0]!r} in its name, which "
            "TensorFlow reads as a pattern: it could remove checkpoints of "
            "other folders, or not find its own. Choose a name without any of "
            "*?[]\\."
        )
    facts = {**vocabulary_of(vocabulary), **of_records}
    if init_checkpoint and not is_trained(folder):
        checkpoint = checkpoint_files.find(init_checkpoint)
        facts[f"`init_checkpoint={init_checkpoint}`"] = known_vocabularies(
            checkpoint
        )
        _check_normalization(vocabulary, folder_of(checkpoint))
    manifests.check_vocabularies(facts)
    if init_checkpoint and not is_trained(folder):
        restoring.require_numbers(init_checkpoint)


def _check_normalization(
    vocabulary: tokenization.VocabularyOptions, folder: str
) -> None:
    """Refuse text that is normalized in another way than that of a run."""
    if not is_run(folder):
        return
    settings = read(folder).vocabulary.resolved().settings
    for name, here in vocabulary.resolved().settings.items():
        there = settings[name]
        if None not in (here, there) and here != there:
            raise errors.UserError(
                f"`{name}={str(here).lower()}` is not what the run of "
                f"`init_checkpoint={folder}` was trained with: its text was "
                f"normalized with {name}={str(there).lower()}. Use that, or "
                "its copy of the vocabulary, beside which a file says so."
            )


def read(folder: str, option: str = "run_dir") -> Run:
    """Read the folder of a run; of several runs, that of the best one."""
    files.refuse_file(folder, option)
    path = files.in_folder(folder, OPTIONS_NAME)
    if not files.exists(path):
        best = scores.best_folder(folder)
        if best != folder:
            return read(best, option)
        raise errors.UserError(
            f"`{option}={folder}` is not the folder of a run: it has no "
            f"{OPTIONS_NAME}. Name the output folder of run_pretraining, "
            "run_classifier, run_squad, run_race, run_embeddings or run_tagger."
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
    config = AlbertConfig.from_json_file(files.in_folder(folder, CONFIG_NAME))
    _check_task(values, config, path)
    return Run(folder, program, values, config, vocab_sha256, facts)


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
