"""What is exported: a run or any checkpoint, as a service with new weights.

Options to a `Source`, which says where everything is; a source to the task it
was finetuned for, and to its service.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, NoReturn

from albert_tf import (
    checkpoints,
    errors,
    files,
    modeling,
    options,
    ranges,
    run_folder,
    scores,
    tokenization,
)
from albert_tf.options import checked, option
from albert_tf.serving import make, service
from albert_tf.tasks import base, race, registry, squad

TASKS = ("encoder", "pretraining", "classifier", "regression", "squad", "race")

# Which options say what, beside those that are always there.
_OF_RUN = ("checkpoint", "task_module")
_OF_CHECKPOINT = ("albert_config_file", "num_labels", "labels", "pairs")
# Which tasks an option is for; one that is not here is for all.
_FOR = {
    **dict.fromkeys(("num_labels", "labels"), ("classifier",)),
    "pairs": ("classifier", "regression"),
    **dict.fromkeys(
        (
            *("squad_version", "start_n_top", "end_n_top", "doc_stride"),
            *("null_score_diff_threshold", "max_query_length"),
            *("max_answer_length", "n_best_size"),
        ),
        ("squad",),
    ),
    **dict.fromkeys(("num_options", "max_qa_length"), ("race",)),
}
_OF_V2 = ("start_n_top", "end_n_top", "null_score_diff_threshold")

_SHORTEST = 4  # [CLS] piece [SEP] [SEP].
_SQUAD_LENGTH = 384  # Source: ALBERT appendix A.4.
_ORDER_WEIGHTS = "cls/seq_relationship/output_weights"


@dataclasses.dataclass(frozen=True)
@checked
class SourceOptions:
    """Where the weights are, and what they were trained for."""

    run_dir: str | None = option(
        None, "The --output_dir of run_pretraining, run_classifier, ..."
    )
    checkpoint: str | None = option(
        None,
        "Checkpoint of --run_dir to export. Default: the best, else the "
        "latest.",
    )
    task_module: str | None = option(
        None, "The --task_module of --run_dir, if it had one."
    )
    init_checkpoint: str | None = option(
        None, "Any checkpoint, in the place of --run_dir."
    )
    albert_config_file: str | None = option(
        None,
        "Architecture of --init_checkpoint. Default: the file beside it.",
    )
    task: str | None = option(
        None,
        "What --init_checkpoint was trained for. With --run_dir, only encoder: "
        "leave its head out.",
        choices=TASKS,
    )
    # Without one: that of the run, or the only one beside the checkpoint.
    vocabulary: tokenization.VocabularyOptions = dataclasses.field(
        default_factory=tokenization.VocabularyOptions
    )
    max_seq_length: int | None = option(
        None,
        "Tokens of a sequence made from text; longer text is cut. Default: "
        "that of the run; for a checkpoint 384 for squad, else all positions.",
        within=ranges.TOKENS,
    )
    num_labels: int | None = option(
        None,
        "Classes of --task=classifier. Default: those of its weights.",
        within=ranges.TOKENS,
    )
    labels: str | None = option(
        None, "Their names, separated by commas. Default: 0,1,..."
    )
    pairs: bool | None = option(
        None, "Whether --task=classifier or regression takes pairs of texts."
    )
    squad_version: str | None = option(
        None,
        "Version of --task=squad. Default: 2.0.",
        choices=squad.VERSIONS,
    )
    start_n_top: int | None = option(
        None, "SQuAD 2.0: starts to follow.", within=ranges.TOKENS
    )
    end_n_top: int | None = option(
        None, "SQuAD 2.0: ends for each start.", within=ranges.TOKENS
    )
    null_score_diff_threshold: float | None = option(
        None,
        "SQuAD 2.0: questions with a higher score have no answer.",
        within=ranges.THRESHOLD,
    )
    doc_stride: int | None = option(
        None, "SQuAD: from window to window.", within=ranges.TOKENS
    )
    max_query_length: int | None = option(
        None, "SQuAD: of a question.", within=ranges.TOKENS
    )
    max_answer_length: int | None = option(
        None, "SQuAD: of an answer.", within=ranges.TOKENS
    )
    n_best_size: int | None = option(
        None, "SQuAD: answers of the n-best list.", within=ranges.N_BEST
    )
    num_options: int | None = option(
        None,
        "RACE: options of a question.",
        within=ranges.Range(2, len(race.LETTERS)),
    )
    max_qa_length: int | None = option(
        None, "RACE: tokens of question and option.", within=ranges.TOKENS
    )

    def __post_init__(self) -> None:
        if bool(self.run_dir) == bool(self.init_checkpoint):
            raise errors.UserError(
                "--run_dir and --init_checkpoint: exactly one of the two is "
                "needed. The first is the folder of a run, the second any "
                "checkpoint."
            )
        if self.run_dir:
            options.refuse_foreign(self, _OF_CHECKPOINT, "init_checkpoint")
        else:
            options.refuse_foreign(self, _OF_RUN, "run_dir")
        if self.init_checkpoint and not self.task:
            raise errors.UserError(
                f"--init_checkpoint={self.init_checkpoint} needs --task: what "
                f"it was trained for, one of {', '.join(TASKS)}."
            )
        if self.run_dir and self.task not in (None, "encoder"):
            raise errors.UserError(
                f"--task={self.task} is given with --run_dir, whose folder "
                "knows its task. Leave it out, or use --task=encoder."
            )

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given, by name."""
        values = options.to_dict(self).items()
        return {name: value for name, value in values if value is not None}


@dataclasses.dataclass(frozen=True)
class Source:
    """What is exported.

    Attributes:
        config: The architecture.
        vocabulary: Its vocabulary.
        checkpoint: Path of the weights.
        option: Name of the option with that path.
        values: All other options that are known.
    """

    config: modeling.AlbertConfig
    vocabulary: tokenization.VocabularyOptions
    checkpoint: str
    option: str
    values: Mapping[str, Any]


def find(settings: SourceOptions) -> Source:
    """Return what the options say.

    Raises:
        errors.UserError: It is not there, or something about it is not known.
    """
    return of_run(settings) if settings.run_dir else of_checkpoint(settings)


def of_run(settings: SourceOptions) -> Source:
    """Return what the folder of a run says; given options come first."""
    assert settings.run_dir is not None
    run_ = run_folder.read(settings.run_dir)
    if not settings.task:  # An encoder alone needs no task.
        registry.load_module_for(
            run_.options, run_.folder, settings.task_module
        )
    known = "pretraining"
    if "task_name" in run_.options:
        known = run_.options["task_name"].lower()
    for name, value in settings.given.items():
        is_known = name in run_.options and not settings.task
        if name in _FOR and not is_known:
            _refuse(name, value, settings.task or known)
    _check_versions(settings, run_.options)
    vocabulary = _vocabulary(settings, run_.vocabulary, settings.run_dir)
    if vocabulary.path is None:
        raise errors.UserError(
            f"--run_dir={settings.run_dir} has no copy of its vocabulary. "
            "Name the one it was trained with as --spm_model_file (or "
            "--vocab_file)."
        )
    kind = "finetuned" if "task_name" in run_.options else known
    return Source(
        run_.config,
        vocabulary,
        settings.checkpoint or settings.run_dir,
        "checkpoint" if settings.checkpoint else "run_dir",
        {**run_.options, "task": kind, **settings.given},
    )


def of_checkpoint(settings: SourceOptions) -> Source:
    """Return what a checkpoint and the options say."""
    assert settings.init_checkpoint is not None
    for name, value in settings.given.items():
        if name in _FOR and settings.task not in _FOR[name]:
            _refuse(name, value, settings.task)
    _check_versions(settings, {})
    checkpoint = checkpoints.read(settings.init_checkpoint)
    vocabulary = _vocabulary(settings, *_beside(settings, checkpoint.path))
    vocabulary.require()
    config = checkpoint.config
    if settings.albert_config_file:
        path = settings.albert_config_file
        config = modeling.AlbertConfig.from_json_file(path)
    if config is None:
        raise errors.UserError(
            f"--init_checkpoint={settings.init_checkpoint} has no config file "
            "beside it. Name it as --albert_config_file."
        )
    labels = checkpoint.shapes.get("output_weights", [0])[0]
    length = config.max_position_embeddings
    if settings.task == "squad":
        length = min(length, _SQUAD_LENGTH)
    return Source(
        config,
        vocabulary,
        checkpoint.path,
        "init_checkpoint",
        {
            "max_seq_length": length,
            "num_labels": labels,
            "has_sentence_order": _ORDER_WEIGHTS in checkpoint.shapes,
            **settings.given,
        },
    )


def _refuse(name: str, value: Any, kind: str | None) -> NoReturn:
    raise errors.UserError(
        f"--{name}={value} is for {' and '.join(_FOR[name])}, but the model is "
        f"one of {kind}. Leave it out."
    )


def _check_versions(settings: SourceOptions, known: Mapping[str, Any]) -> None:
    """Refuse options of another version of SQuAD than the model's.

    Args:
        settings: The options.
        known: Those of the run; nothing for a bare checkpoint.

    Raises:
        errors.UserError: There is one.
    """
    given, version = settings.given, known.get("squad_version")
    if settings.run_dir and given.get("squad_version", version) != version:
        raise errors.UserError(
            f"--squad_version={settings.squad_version}, but --run_dir="
            f"{settings.run_dir} was trained for {version}. Leave it out."
        )
    for name in _OF_V2:
        if name in given and given.get("squad_version", version) == "1.1":
            raise errors.UserError(
                f"--{name}={given[name]} is for SQuAD 2.0, but the model is "
                "one of 1.1. Leave it out."
            )


def _beside(
    settings: SourceOptions, checkpoint: str
) -> tuple[tokenization.VocabularyOptions, str]:
    """Return the vocabulary in a checkpoint's folder, and the folder.

    If it is the folder of a run, how the vocabulary is used comes along.
    """
    folder = run_folder.folder_of(checkpoint)
    if files.exists(os.path.join(folder, run_folder.OPTIONS_NAME)):
        return run_folder.read(folder).vocabulary, folder
    found = run_folder.vocabularies(folder)
    if len(found) > 1:  # Nobody says which of them it is.
        found = {}
    return options.from_dict(
        tokenization.VocabularyOptions,
        {**settings.vocabulary.settings, **found},
    ), folder


def _vocabulary(
    settings: SourceOptions, known: tokenization.VocabularyOptions, folder: str
) -> tokenization.VocabularyOptions:
    """Return the vocabulary that is given, else the known one.

    Raises:
        errors.UserError: It would be used in another way than the known one.
    """
    given = settings.vocabulary
    defaults = tokenization.VocabularyOptions().settings
    for name, value in given.settings.items():
        if value not in (defaults[name], known.settings[name]):
            raise errors.UserError(
                f"--{name}={str(value).lower()}, but the run in {folder} was "
                f"trained with {str(not value).lower()}. Leave it out."
            )
    if given.path is None:
        return known
    return dataclasses.replace(
        known,
        spm_model_file=given.spm_model_file,
        vocab_file=given.vocab_file,
    )


def make_service(
    source: Source, task: base.Task | None, precision: str = "float32"
) -> service.Service:
    """Build a model, with new weights, and its signatures.

    Args:
        source: What is exported.
        task: Its task, if it has one; see `make_task`.
        precision: What the encoder computes in.
    """
    encoder = modeling.AlbertModel(source.config, precision=precision)
    if task:
        return make.of_task(task, encoder)
    values = source.values
    tokenizer = load_tokenizer(source)
    length = values["max_seq_length"]
    if values["task"] == "encoder":
        return make.of_encoder(encoder, tokenizer, length)
    if values["task"] == "pretraining":
        has_order = values.get("sentence_objective") != "none"
        return make.of_pretraining(
            encoder,
            tokenizer,
            length,
            sentence_order=values.get("has_sentence_order", has_order),
        )
    return make.of_labels(
        encoder,
        tokenizer,
        length,
        labels=_labels(values) if values["task"] == "classifier" else (),
        pairs=values.get("pairs", False),
    )


def make_task(source: Source) -> base.Task | None:
    """Return the task of a finetuned model.

    Encoders, pretrained models and bare classifiers have none.

    Raises:
        errors.UserError: Sequences are longer than the position table, or the
            options do not fit one another.
    """
    values = source.values
    length = values["max_seq_length"]
    if length > source.config.max_position_embeddings:
        raise errors.UserError(
            f"--max_seq_length={length} is more than the "
            f"{source.config.max_position_embeddings} positions of the model."
        )
    if length < _SHORTEST:
        raise errors.UserError(
            f"--max_seq_length={length} leaves no room for texts between the "
            f"markers. Use at least {_SHORTEST}."
        )
    if values["task"] in ("encoder", "pretraining", "classifier", "regression"):
        return None
    if values["task"] != "finetuned":
        values = {**values, "task_name": values["task"]}
    task = registry.make(values, load_tokenizer(source))
    if source.option != "init_checkpoint":
        task.remember(scores.of_best(values["run_dir"]))
    return task


def _labels(values: Mapping[str, Any]) -> list[str]:
    """Return the names of the classes of a bare checkpoint.

    Raises:
        errors.UserError: There are too few, or as many as nobody has said.
    """
    count = values["num_labels"]
    given = values.get("labels", ",".join(map(str, range(count)))).split(",")
    names = [name.strip() for name in given]
    if len(set(names)) < len(names) or not all(names):
        raise errors.UserError(
            f"--labels={values['labels']} has a name twice, or an empty one. "
            "Give every class a name of its own."
        )
    if len(names) != count or count < 2:
        raise errors.UserError(
            f"--task=classifier needs two classes at least, and a name for "
            f"each: there are {count} classes and {len(names)} names. See "
            "--num_labels and --labels; for one output use --task=regression."
        )
    return names


def load_tokenizer(source: Source) -> tokenization.AnyTokenizer:
    """Load the vocabulary, and make sure that it is the model's."""
    tokenizer = tokenization.load(source.vocabulary)
    if tokenizer.vocab_size != source.config.vocab_size:
        kind, path = source.vocabulary.kind, source.vocabulary.path
        raise errors.UserError(
            f"--{kind}={path} has {tokenizer.vocab_size} pieces, but the model "
            f"has vocab_size {source.config.vocab_size}. Use the vocabulary it "
            "was trained with."
        )
    return tokenizer
