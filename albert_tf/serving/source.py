"""What is exported: a run or any checkpoint, as a service with new weights.

Options to a `Source`, which says where everything is; a source to the task it
was finetuned for, and to its service.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from albert_tf.common import errors, options, scores, slices
from albert_tf.data import manifests
from albert_tf.finetuning import base, fact_sources, registry
from albert_tf.model import compatibility
from albert_tf.model.checkpoints import checkpoint_reader
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import from_checkpoint, pretraining
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import make, source_options
from albert_tf.serving.services import encoder_service, service
from albert_tf.text import tokenization
from albert_tf.training import run_folder

# Only the others have examples.
_WITHOUT_A_TASK = ("encoder", "pretraining", "classifier", "regression")

_SHORTEST = 4  # [CLS] piece [SEP] [SEP].
_ORDER_WEIGHTS = "cls/seq_relationship/output_weights"


@dataclasses.dataclass(frozen=True)
class Source:
    """What is exported."""

    config: AlbertConfig
    vocabulary: tokenization.VocabularyOptions
    checkpoint: str
    option: str  # That named the checkpoint.
    values: Mapping[str, Any]  # All other options that are known.
    facts: Mapping[str, Any] | None = None  # Of a finetuned run.


def find(settings: source_options.SourceOptions) -> Source:
    return _of_run(settings) if settings.run_dir else _of_checkpoint(settings)


def _of_run(settings: source_options.SourceOptions) -> Source:
    assert settings.run_dir is not None
    run_ = run_folder.read(settings.run_dir)
    if not settings.task:  # An encoder alone needs no task.
        registry.load_module_for(
            run_.options, run_.folder, settings.task_module
        )
    _check_given(settings, run_.options)
    run_folder.check_vocabularies(
        checkpoint=settings.checkpoint, run_dir=settings.run_dir
    )
    vocabulary = choose_vocabulary(
        settings.vocabulary, run_.vocabulary, settings.run_dir
    )
    if vocabulary.path is None:
        raise errors.UserError(
            f"`run_dir={settings.run_dir}` has no copy of its vocabulary. Name "
            "the one it was trained with as `spm_model_file` (or `vocab_file`)."
        )
    kind = "finetuned" if "task_name" in run_.options else "pretraining"
    # Other heads for words are not kept, as that of a generator.
    has_masked_lm = (
        run_.options.get("objective", "mlm") == "mlm"
        or run_.options.get("generator_sharing") == "all"
    )
    is_said = settings.given.get("task")
    if kind == "pretraining" and not (has_masked_lm or is_said):
        kind = "encoder"
        logging.info(
            "The run in %s has `objective=%s`: the encoder is exported, "
            "without heads.",
            settings.run_dir,
            run_.options["objective"],
        )
    given = settings.given
    if "prompts" in given:  # The run's prompt may not be one of them.
        given = {"prompt": None, **given}
    return Source(
        run_.config,
        vocabulary,
        settings.checkpoint or settings.run_dir,
        "checkpoint" if settings.checkpoint else "run_dir",
        {**run_.options, "task": kind, **given},
        # An option may say something else than the run, as `text_pooling`.
        {name: given.get(name, value) for name, value in run_.facts.items()},
    )


def _of_checkpoint(settings: source_options.SourceOptions) -> Source:
    assert settings.init_checkpoint is not None
    _check_given(settings, {})
    checkpoint = checkpoint_reader.read(settings.init_checkpoint)
    requested = settings.vocabulary
    stored, folder = run_folder.vocabulary_beside(checkpoint.path, requested)
    if settings.task != "encoder" and run_folder.is_finetuned(folder):
        # Only `run_dir` reads what a run knows of its heads, such as labels.
        raise errors.UserError(
            f"`init_checkpoint={settings.init_checkpoint}` is of a finetuned "
            f"run. Use `run_dir={folder or '.'}`, which knows how its answers "
            "are made, with `checkpoint` if it is not the best."
        )
    vocabulary = choose_vocabulary(requested, stored, folder)
    vocabulary.require()
    config = checkpoint.config
    if settings.of_checkpoint.albert_config_file:
        path = settings.of_checkpoint.albert_config_file
        config = AlbertConfig.from_json_file(path)
    if config is None:
        raise errors.UserError(
            f"`init_checkpoint={settings.init_checkpoint}` has no config file "
            "beside it. Name it as `albert_config_file`."
        )
    length = config.max_position_embeddings
    kind = registry.find_class(str(settings.task))
    longest = kind.longest_of(fact_sources.CheckpointSource(checkpoint.path))
    length = min(length, longest or length)
    return Source(
        config,
        vocabulary,
        checkpoint.path,
        "init_checkpoint",
        {
            "max_seq_length": length,
            "num_labels": checkpoint.shapes.get("output_weights", [0])[0],
            "lacks_pooler": bool(from_checkpoint.missing_scopes(checkpoint)),
            "has_sentence_order": _ORDER_WEIGHTS in checkpoint.shapes,
            **settings.given,
        },
    )


def _check_given(
    settings: source_options.SourceOptions, run_options: Mapping[str, Any]
) -> None:
    """Refuse options of another task, or of another kind of it.

    Args:
        run_options: Those of a run; none for a checkpoint.
    """
    given, task = settings.given, settings.task
    name = task or run_options.get("task_name", "pretraining").lower()
    kind = registry.find_class(name)
    # Runs of earlier versions have not written all of them.
    of_run = {*run_options, *options.names(kind.options_class)}
    for owner, option_names in source_options.OF_SLICES.items():
        for option in option_names:
            is_of_run = option in of_run and not task
            if option in given and owner != task and not is_of_run:
                raise errors.UserError(
                    f"`{option}={given[option]}` is for {owner}, but the model "
                    f"is one of {name}. Leave it out."
                )
    kind.check_export(given, run_options)


def choose_vocabulary(
    requested: tokenization.VocabularyOptions,
    stored: tokenization.VocabularyOptions,
    folder: str,
) -> tokenization.VocabularyOptions:
    """Return the vocabulary that is given, else the known one in a folder."""
    # Of other folders, `folder_vocab_hashes` has the same.
    is_run = run_folder.is_run(folder)
    copy = run_folder.vocab_hashes(stored).values() if is_run else ()
    manifests.check_vocabularies(
        {
            **run_folder.vocab_hashes(requested),
            f"the model in {folder}": run_folder.folder_vocab_hashes(folder),
            f"the vocabulary {stored.path}": set().union(*copy),
        }
    )
    if requested.path is not None and not is_run:
        return requested.resolved()
    stored = stored.resolved()
    values: dict[str, Any] = {
        n: value for n, value in requested.settings.items() if value is not None
    }
    for name, value in values.items():
        if stored.settings[name] not in (value, None):
            raise errors.UserError(
                f"`{name}={str(value).lower()}`, but the run in {folder} was "
                f"trained with {str(not value).lower()}. Leave it out."
            )
    if requested.path is not None:
        values["spm_model_file"] = requested.spm_model_file
        values["vocab_file"] = requested.vocab_file
    return dataclasses.replace(stored, **values).resolved()


def make_service(
    source: Source, task: base.Task | None, precision: str = "float32"
) -> service.Service:
    values = source.values
    encoder = AlbertModel(
        source.config,
        precision=precision,
        with_pooler=_needs_pooler(values, task),
    )
    encoder.depth = values.get("depth") or encoder.depth
    if task:
        made = make.of_task(task, encoder)
        if values["task"] == "finetuned" and values.get("exit_heads"):
            made.model.add_exits(trained_depths(source)[:-1], own_heads=True)
        return made
    tokenizer, length = _load_tokenizer(source), values["max_seq_length"]
    if values["task"] == "encoder":
        return encoder_service.EncoderService(encoder, tokenizer, length)
    if values["task"] == "pretraining":
        has_order = values.get("sentence_objective") != "none"
        has_order &= "task_name" not in values
        has_order = values.get("has_sentence_order", has_order)
        model = pretraining.AlbertPretrainer(encoder, has_order)
        return encoder_service.PretrainedService(model, tokenizer, length)
    text: Any = slices.load("text", "service")
    of_text: service.Service = text.of_checkpoint(
        encoder, tokenizer, source.checkpoint, values
    )
    return of_text


def trained_depths(source: Source) -> tuple[int, ...]:
    return source.config.exits(source.values.get("exit_layers"))


def depths(source: Source, *, adaptive: bool) -> tuple[int, ...]:
    """Return the depths at which an export may answer; its own is the last.

    Args:
        adaptive: Whether it answers at several depths. Where none was trained
            but the last, these are all.
    """
    known = trained_depths(source)
    depth = source.values.get("depth") or known[-1]
    if adaptive and len(known) == 1:
        return tuple(range(1, depth + 1))
    return (*(n for n in known if n < depth), depth)


def check_depths(source: Source, requested: Sequence[int]) -> None:
    """Warn of depths that were not trained; refuse them if layers differ."""
    known = trained_depths(source)
    trained = " and ".join(map(str, known))
    new = ", ".join(str(n) for n in requested if n not in known)
    if new and len(set(source.config.layer_groups)) > 1:
        raise errors.UserError(
            f"{source.checkpoint} was trained to answer after {trained} "
            f"layers, not after {new}, and its layers are different ones. "
            "Choose `depth` among these, or finetune with `exit_layers`."
        )
    if new:
        logging.warning(
            "%s was trained to answer after %s layers, not after %s: expect a "
            "lower score there. `exit_layers` of finetuning trains other "
            "depths.",
            source.checkpoint,
            trained,
            new,
        )


def _needs_pooler(values: Mapping[str, Any], task: base.Task | None) -> bool:
    """Tell whether a service reads a pooler, and the checkpoint has one."""
    if task and task.pooler == "drops":
        return False
    is_optional = values["task"] in ("encoder", "pretraining") or (
        task is not None and task.pooler == "keeps"
    )
    return not (is_optional and values.get("lacks_pooler"))


def make_task(source: Source) -> base.Task | None:
    """Return the task of a finetuned model.

    Encoders, pretrained models and bare classifiers have none.
    """
    values = source.values
    length = values["max_seq_length"]
    compatibility.check_length(length, source.config, "the model")
    if length < _SHORTEST:
        raise errors.UserError(
            f"`max_seq_length={length}` leaves no tokens for texts between the "
            f"special tokens. Use at least {_SHORTEST}."
        )
    if values["task"] in _WITHOUT_A_TASK:
        if values.get("pairs"):
            compatibility.check_pairs(source.config, "the model")
        return None
    facts_source = None
    if values["task"] != "finetuned":
        values = {**values, "task_name": values["task"]}
        facts_source = fact_sources.CheckpointSource(source.checkpoint)
    task = registry.make(
        values, _load_tokenizer(source), source.facts or {}, facts_source
    )
    task.check_config(source.config.hidden_size)
    if task.has_pairs:
        compatibility.check_pairs(source.config, "the model")
    if source.option != "init_checkpoint":
        task.remember(scores.best_scores(values["run_dir"]))
    return task


def _load_tokenizer(source: Source) -> tokenization.AnyTokenizer:
    return compatibility.load_tokenizer(
        source.vocabulary, source.config, "the model"
    )
