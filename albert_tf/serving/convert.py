"""Read a checkpoint in any format, write it in another one."""

import dataclasses
import functools
import glob
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.common import (
    errors,
    files,
    folder_lock,
    options,
    outputs,
    packed_vectors,
    prompts,
)
from albert_tf.data import manifests
from albert_tf.finetuning import fact_sources, registry
from albert_tf.model import compatibility, int8_weights
from albert_tf.model.checkpoints import (
    checkpoint_files,
    checkpoint_reader,
    config_files,
    huggingface,
    keras_hub,
    layouts,
    restoring,
    sentence_modules,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import classification, from_checkpoint, head
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.model.optimizers import optimization
from albert_tf.serving import convert_options, make, new_vocabulary
from albert_tf.serving import source as serving_source
from albert_tf.serving.convert_options import ConvertOptions
from albert_tf.serving.formats import hub_folder, onnx_model
from albert_tf.text import tokenization, tokenizer_check
from albert_tf.training import run_folder, word_embeddings

_STEP = "global_step"
_MOMENTS = "adam_m", "adam_v"
# Variables with a row for each piece; other heads of that size are not read.
_OF_PIECES = "bert/embeddings/word_embeddings", "cls/predictions/output_bias"
# The one data file of a checkpoint that is written in one piece.
_DATA_SUFFIX = ".data-00000-of-00001"


@dataclasses.dataclass(frozen=True)
class _Source:
    """A model with its weights, and the state of its optimizer."""

    model: keras.Model
    variables: list[tf.Variable]  # That were read; the pooler may be missing.
    config: AlbertConfig
    state: dict[str, np.ndarray]  # See `checkpoint_reader.Checkpoint`.
    path: str

    @property
    def names(self) -> set[str]:
        return set(map(checkpoint_reader.name_of, self.variables))

    def weights(self) -> dict[str, np.ndarray]:
        return {
            checkpoint_reader.name_of(variable): variable.numpy()
            for variable in self.variables
        }


def run(settings: ConvertOptions) -> None:
    if not settings.to or files.is_remote(settings.to):
        raise errors.UserError(
            f"`to={settings.to}` is not a local place. Convert to one, and "
            "copy."
        )
    if settings.format in convert_options.HUB_FORMATS:
        tokenizer_check.require_library()
    if settings.onnx:
        onnx_model.FORMAT.require("onnx")
    new_vocabulary.check(settings)
    folder = settings.to
    if settings.format in _WRITERS:
        folder = os.path.dirname(settings.to) or os.curdir
    with (
        folder_lock.hold(folder, "to"),
        tempfile.TemporaryDirectory() as scratch,
    ):
        _check_target(settings, folder)
        _convert(settings, folder, scratch)


def _convert(settings: ConvertOptions, folder: str, scratch: str) -> None:
    source = _read_source(settings)
    beside, run_dir = run_folder.vocabulary_beside(
        source.path, settings.vocabulary
    )
    vocabulary = serving_source.choose_vocabulary(
        settings.vocabulary, beside, run_dir
    )
    if settings.changes_vocabulary:
        _require_vocabulary(settings, vocabulary)
        vocabulary, sources = new_vocabulary.choose(
            settings, vocabulary, source.config, scratch
        )
        source = _replace_rows(source, sources)
    if settings.format not in convert_options.HUB_FORMATS:
        registry.load_module(settings.task_module)
    values: dict[str, Any] = {}
    if run_folder.is_run(run_dir):
        run_ = run_folder.read(run_dir, "from")
        values = {**run_.options, "facts": fact_sources.facts_of_run(run_)}
    facts = values.get("facts", {})
    has_head = settings.format != convert_options.KERAS
    if has_head and facts.get("label_deviation"):
        source = _rescale_head(
            source, facts["label_mean"], facts["label_deviation"]
        )
    _warn_of_losses(source, settings.format, values)
    if settings.format == "tf1":
        config = _original_config(source.config)
        source = dataclasses.replace(source, config=config)
    if settings.format in convert_options.HUB_FORMATS:
        _write_hub(source, settings, vocabulary, run_dir, values)
    elif settings.format in convert_options.SMALL_FORMATS:
        _write_small(source, settings.format, vocabulary, folder)
    elif settings.format == convert_options.KERAS:
        _write_preset(source, settings, vocabulary)
    else:
        _prepare_prefix(source, settings, vocabulary, folder)
        # Last: if a disk is full, the command can be repeated.
        _WRITERS[settings.format](source, settings.to)
    has_moments = len(source.state) > 1 and settings.format in _WRITERS
    logging.info(
        "Wrote %s (%s): %s with %d variables%s.",
        settings.to,
        settings.format,
        type(source.model).__name__,
        len(source.variables),
        ", moments and step" if has_moments else "",
    )


def _replace_rows(
    source: _Source, sources: word_embeddings.PieceSources
) -> _Source:
    """Give a model the rows of another vocabulary; drop its moments."""
    config = dataclasses.replace(source.config, vocab_size=len(sources.ids))
    model = from_checkpoint.make_untrained_model(
        config, checkpoint_reader.read(source.path)
    )
    for old, new in zip(source.model.variables, model.variables, strict=True):
        is_of_pieces = checkpoint_reader.name_of(new) in _OF_PIECES
        value = old.numpy()
        new.assign(sources.convert(value) if is_of_pieces else value)
    if len(source.state) > 1:
        logging.warning("The moments of the old vocabulary are left out.")
    names = source.names
    return dataclasses.replace(
        source,
        model=model,
        config=config,
        variables=[
            v for v in model.variables if checkpoint_reader.name_of(v) in names
        ],
        state={n: v for n, v in source.state.items() if n == _STEP},
    )


def _rescale_head(source: _Source, mean: float, deviation: float) -> _Source:
    """Have a regression's head give unscaled numbers; drop its moments."""
    if (mean, deviation) == (0.0, 1.0):
        return source
    classification.warn_of_rounding(mean, deviation)
    for variable in source.variables:
        name = checkpoint_reader.name_of(variable)
        units = variable.numpy().astype(np.float64) * deviation
        if name == "output_weights":
            variable.assign(units)
        elif name == "output_bias":
            variable.assign(units + mean)
    logging.warning(
        "The new head gives the numbers themselves, no longer units of %g from "
        "%g; moments are left out. To train it further, give `label_mean=0` "
        "and `label_deviation=1`.",
        deviation,
        mean,
    )
    state = {n: v for n, v in source.state.items() if n == _STEP}
    return dataclasses.replace(source, state=state)


def _warn_of_losses(
    source: _Source, format_: str, values: dict[str, Any]
) -> None:
    if format_ == convert_options.KERAS:
        return  # Presets are for KerasHub, which has neither.
    if format_ not in convert_options.HUB_FORMATS:
        _warn_of_lost_labels(source, values)
    if format_ != convert_options.SENTENCES:
        _warn_of_lost_pooling(source, values)


def _warn_of_lost_labels(source: _Source, values: dict[str, Any]) -> None:
    """Warn that the new checkpoint has no labels' names, and log them."""
    # To make the task would need the vocabulary, perhaps a user's module.
    names = values.get("facts", {}).get("labels", ())
    if not names and (details := _read_details(source)):
        names = details.labels
    if names:
        heads = [h for h in head.of_slices() if h.width_of in source.names]
        logging.warning(
            "The names of the classes are not in the new checkpoint: %s. "
            "Give them to albert_tf.export as --%s.",
            ",".join(names),
            heads[0].labels_option if heads else "labels",
        )


def _warn_of_lost_pooling(source: _Source, values: dict[str, Any]) -> None:
    """Warn that the new checkpoint does not say how vectors are pooled."""
    try:
        modules = checkpoint_reader.modules_beside(source.path)
    except errors.UserError as error:  # Refused where vectors are wanted.
        logging.warning("The new checkpoint is the encoder alone. %s", error)
        return
    facts = options.to_dict(modules) if modules else values.get("facts", {})
    if facts.get("prompts"):
        logging.warning(
            "Prompts are not in the new checkpoint. Give `prompts=%s` to "
            "albert_tf.export, or use `format=%s`.",
            facts["prompts"],
            convert_options.SENTENCES,
        )
    pooling = facts.get("text_pooling")
    if pooling not in (None, "mean"):
        logging.warning(
            "How vectors of texts are made is not in the new checkpoint. Give "
            "`text_pooling=%s` to albert_tf.export, or use `format=%s`.",
            pooling,
            convert_options.SENTENCES,
        )


def _original_config(config: AlbertConfig) -> AlbertConfig:
    """Return the config with which the original's scripts compute the same."""
    if config.hidden_act == "gelu_erf":
        raise errors.UserError(
            "The model has the exact GELU, hidden_act='gelu_erf', as BERT has; "
            "the original release has the tanh approximation only. "
            "`format=tf2` keeps it."
        )
    huggingface.refuse_own_parts(
        config,
        "the original release",
        layer_norm_eps=1e-12,
        project_words_first=False,
        map_equal_sizes=False,
    )
    original = dataclasses.replace(
        config, share="all", num_hidden_groups=huggingface.groups_of(config)
    )
    computed = dataclasses.replace(original, float_group_index=True)
    if computed.layer_groups != config.layer_groups:
        raise errors.UserError(
            f"share={config.share!r} with {original.num_hidden_groups} "
            f"num_hidden_groups for {config.num_hidden_layers} "
            "num_hidden_layers cannot be written: the layers of the original "
            "release would take other parameters. `format=tf2` keeps it."
        )
    return original


def _check_target(settings: ConvertOptions, folder: str) -> None:
    """Refuse a folder of another kind, and to replace files unasked."""
    target = settings.to
    patterns = [run_folder.OPTIONS_NAME]
    of_others = *convert_options.HUB_FORMATS, convert_options.KERAS
    if settings.format not in of_others:
        patterns.append(huggingface.CONFIG_NAME)
    if settings.format not in _WRITERS:
        patterns.append("*.index")
    if settings.format in convert_options.SMALL_FORMATS:
        names = huggingface.WEIGHTS_NAME, checkpoint_reader.CONFIG_NAME
        replaced = [os.path.join(target, name) for name in names]
        replaced += run_folder.vocabulary_copy_paths(target)
    elif settings.format in of_others:
        replaced = hub_folder.paths(target)
    else:
        replaced = [target + suffix for suffix in (_DATA_SUFFIX, ".index")]
        if not run_folder.find_vocabularies(folder):
            replaced += run_folder.vocabulary_copy_paths(folder)
        if os.path.isdir(target) or target.endswith((".index", ".meta", "/")):
            raise errors.UserError(
                f"`to={target}` is not the prefix of a checkpoint. Use, for "
                f"example, {os.path.join(target, 'model.ckpt-best')}."
            )
    foreign = [n for name in patterns for n in glob.glob(name, root_dir=folder)]
    if foreign:
        raise errors.UserError(
            f"`to={target}`: The folder belongs to something else; it holds "
            f"{min(foreign)}. Choose a folder of its own."
        )
    outputs.check(settings, "to", replaced)


def _read_source(settings: ConvertOptions) -> _Source:
    checkpoint = checkpoint_reader.read(settings.from_, "from")
    config = checkpoint.config
    if settings.albert_config_file:
        config = AlbertConfig.from_json_file(settings.albert_config_file)
    if config is None:
        raise errors.UserError(
            f"`from={settings.from_}` has no albert_config.json beside it that "
            "can be read. Name the file as `albert_config_file`."
        )
    words = _words_of_student(checkpoint)
    shapes = {n: x for n, x in checkpoint.shapes.items() if n not in words}
    checkpoint = dataclasses.replace(checkpoint, shapes=shapes)
    model = from_checkpoint.make_untrained_model(config, checkpoint)
    missing = from_checkpoint.missing_scopes(checkpoint)
    new = restoring.restore(model, checkpoint, "from", new_scopes=missing).new
    dropped = from_checkpoint.only_for_training(checkpoint) | words
    if dropped:
        logging.info(
            "Left out %d variables that only training needs: %s.",
            len(dropped),
            ", ".join(sorted({*map(checkpoint_reader.part_of, dropped)})),
        )
    state = [n for n in checkpoint.state if os.path.dirname(n) not in dropped]
    source = _Source(
        model,
        [v for v in model.variables if checkpoint_reader.name_of(v) not in new],
        config,
        checkpoint.load(state),
        checkpoint.path,
    )
    _check_moments(source, settings.from_)
    return source


def _words_of_student(checkpoint: checkpoint_reader.Checkpoint) -> set[str]:
    """Return the names of a head of masked words beside vectors.

    Only its run tells a student as wide as its teacher, without a linear layer,
    from a pretrained model.
    """
    if not run_folder.is_finetuned(run_folder.folder_of(checkpoint.path)):
        return set()
    part_of = checkpoint_reader.part_of
    return {n for n in checkpoint.shapes if part_of(n) == "cls/predictions"}


def _check_moments(source: _Source, path: str) -> None:
    expected = {
        f"{name}/{kind}": value.shape
        for name, value in source.weights().items()
        for kind in _MOMENTS
    }
    moments = {n: v.shape for n, v in source.state.items() if n != _STEP}
    wrong = sorted({name for name, _ in expected.items() ^ moments.items()})
    if moments and wrong:
        raise errors.UserError(
            f"`from={path}` has moments that do not fit its weights: "
            f"{', '.join(wrong[:3])} and {max(0, len(wrong) - 3)} more. The "
            "checkpoint is damaged; use another one."
        )


def _write_tf1(source: _Source, prefix: str) -> None:
    """Write variables by name, as TensorFlow 1's Saver does."""
    values = {**source.weights(), **source.state}
    names = sorted(values)

    def write(path: str) -> None:
        tf.raw_ops.SaveV2(
            prefix=path,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[values[name] for name in names],
        )

    _write_prefix(write, prefix, source.config)


def _write_tf2(source: _Source, prefix: str) -> None:
    """Write the object graph that `training_loop.Trainer` writes.

    Without a pooler it is a list of the variables: they are read by name.
    """
    model = source.model
    is_whole = len(source.variables) == len(model.variables)
    objects: dict[str, object] = {
        "model": model if is_whole else source.variables
    }
    if len(source.state) > 1:
        # Every optimizer has variables of these names.
        optimizer = objects["optimizer"] = optimization.AdamW(0.0)
        variables = [v for v in source.variables if v.trainable]
        optimizer.build(variables)
        optimizer.iterations.assign(source.state.get(_STEP, 0))
        for index, variable in enumerate(variables):
            name = checkpoint_reader.name_of(variable)
            for kind in _MOMENTS:
                value = source.state[f"{name}/{kind}"]
                getattr(optimizer, kind)[index].assign(value)
    elif source.state:
        step = int(source.state[_STEP])
        objects[_STEP] = tf.Variable(step, dtype=tf.int64, name=_STEP)
    checkpoint = tf.train.Checkpoint(**objects)
    _write_prefix(checkpoint.write, prefix, source.config)


def _write_prefix(
    write: Callable[[str], object], prefix: str, config: AlbertConfig
) -> None:
    """Write a checkpoint beside, and give it its name when it is complete."""
    folder = os.path.dirname(prefix)
    config_path = os.path.join(folder, checkpoint_reader.CONFIG_NAME)
    if not files.exists(config_path):  # See `_convert`.
        files.write_text(config_path, config.to_json())
    partial = prefix + ".index" + files.PARTIAL
    shutil.rmtree(partial, ignore_errors=True)  # Of a killed conversion.
    try:
        os.mkdir(partial)
        with files.name_full_disk(prefix):
            write(os.path.join(partial, "x"))
        for suffix in (_DATA_SUFFIX, ".index"):
            files.sync(os.path.join(partial, "x" + suffix))
        for suffix in (_DATA_SUFFIX, ".index"):
            os.replace(os.path.join(partial, "x" + suffix), prefix + suffix)
    except tf.errors.OpError as error:
        raise checkpoint_files.write_error(f"`to={prefix}`", error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _prepare_prefix(
    source: _Source,
    settings: ConvertOptions,
    vocabulary: tokenization.VocabularyOptions,
    folder: str,
) -> None:
    """Check that a folder is of this model; put the vocabulary there."""
    path = files.safe_join(folder, checkpoint_reader.CONFIG_NAME)
    if files.exists(path) and (
        AlbertConfig.from_json_file(path) != source.config
    ):
        raise errors.UserError(
            f"`to={settings.to}` would stand beside {path}, which describes "
            "another model. Choose another folder."
        )
    manifests.check_vocabularies(
        {
            f"the folder of `to={settings.to}`": (
                run_folder.folder_vocab_hashes(folder)
            ),
            **run_folder.vocab_hashes(vocabulary),
        }
    )
    if vocabulary.path:  # Parsed before anything is written.
        tokenization.load(vocabulary)
        if not run_folder.find_vocabularies(folder):
            run_folder.copy_vocabulary(vocabulary, folder)


def _write_small(
    source: _Source,
    format_: str,
    vocabulary: tokenization.VocabularyOptions,
    folder: str,
) -> None:
    is_int8 = format_ == "int8"
    to_bytes = int8_weights.to_bytes if is_int8 else huggingface.bfloat16_file
    config_path = os.path.join(folder, checkpoint_reader.CONFIG_NAME)
    weights_path = os.path.join(folder, huggingface.WEIGHTS_NAME)
    is_replaced = files.exists(config_path) and files.exists(weights_path)
    contents = {
        config_path: source.config.to_json().encode(),
        weights_path: to_bytes(source.weights()),
        **run_folder.vocabulary_files(vocabulary, folder),
    }
    # The vocabulary of the model that was replaced is not that of the new one.
    old = run_folder.vocabulary_copy_paths(folder) if is_replaced else []
    files.write_together(contents, old)


def _write_preset(
    source: _Source,
    settings: ConvertOptions,
    vocabulary: tokenization.VocabularyOptions,
) -> None:
    tokenizer = _load_tokenizer(settings, vocabulary, source.config)
    weights = source.weights()
    contents = keras_hub.contents(source.config, weights, tokenizer)
    parts = {*map(checkpoint_reader.part_of, weights)} - {"bert"}
    lacking = [f"without the source's {', '.join(sorted(parts))}"] * bool(parts)
    if f"{layouts.POOLER}/dense/bias" not in weights:
        lacking.append("with a pooled_output of 0, since there is no pooler")
    if lacking:
        logging.warning("The preset is %s.", " and ".join(lacking))
    hub_folder.warn_of_numbers(tokenizer)
    old = hub_folder.paths(settings.to)
    hub_folder.write_files(settings.to, contents, old)


def _load_tokenizer(
    settings: ConvertOptions,
    vocabulary: tokenization.VocabularyOptions,
    config: AlbertConfig,
) -> tokenization.AnyTokenizer:
    _require_vocabulary(settings, vocabulary)
    return compatibility.load_tokenizer(vocabulary, config, "the model")


def _require_vocabulary(
    settings: ConvertOptions, vocabulary: tokenization.VocabularyOptions
) -> None:
    if vocabulary.path is None:
        raise errors.UserError(
            f"`from={settings.from_}` has no vocabulary beside it, or several. "
            "Name the one it was trained with as `spm_model_file` or "
            "`vocab_file`."
        )


def _network(source: _Source, settings: ConvertOptions) -> Any:
    """Return what `onnx` holds: where no head is written the encoder alone."""
    parts = {*map(checkpoint_reader.part_of, source.names)}
    if settings.onnx and sentence_modules.SCOPE in parts:
        raise errors.UserError(
            f"`onnx` is given for `from={settings.from_}`, which has a linear "
            "layer after the pooling, and transformers.js has none. Use python "
            "-m albert_tf.export --format=onnx."
        )
    if settings.format == convert_options.SENTENCES or parts == {"bert"}:
        return getattr(source.model, "encoder", source.model)
    return source.model


def _write_hub(
    source: _Source,
    settings: ConvertOptions,
    vocabulary: tokenization.VocabularyOptions,
    run_dir: str,
    values: dict[str, Any],
) -> None:
    """Write a folder with the tokenizer; `values` are those of a run."""
    tokenizer = _load_tokenizer(settings, vocabulary, source.config)
    details = _read_details(source)
    if "task_name" in values:
        registry.load_module_for(values, run_dir, settings.task_module)
        task = registry.make(values, tokenizer, values["facts"])
        details = hub_folder.details_of(task)
        if task.hub_refusal and settings.format == "huggingface":
            raise errors.UserError(
                f"`from={settings.from_}` {task.hub_refusal} Use python -m "
                "albert_tf.export."
            )
        if settings.task_module and settings.format == "huggingface":
            make.of_task(task, AlbertModel(source.config))  # Refuses others.
    model = hub_folder.HubModel(
        source.config,
        source.weights(),
        vocabulary,
        tokenizer,
        details,
        # The card would show the scores of another vocabulary.
        run_dir if values and not settings.changes_vocabulary else None,
        values.get("max_seq_length"),
    )
    of_network = functools.partial(
        onnx_model.files_of, _network(source, settings)
    )
    more = of_network if settings.onnx else dict
    if settings.format == "huggingface":
        hub_folder.write(settings.to, model, more)
        return
    if not values:
        modules = checkpoint_reader.modules_beside(source.path)
        values = options.to_dict(modules) if modules else {}
    names = options.names(packed_vectors.VectorOptions)
    if lost := [f"`{n}={values[n]}`" for n in names if values.get(n)]:
        logging.warning(
            "The new folder gives whole vectors in float32, without %s.",
            " and ".join(lost),
        )
    facts = values.get("facts", values)
    length = values.get("max_seq_length")
    modules = sentence_modules.Modules(
        settings.text_pooling or facts.get("text_pooling") or "mean",
        length or source.config.max_position_embeddings,
        prompting=prompts.PromptOptions(
            facts.get("prompts"), facts.get("prompt")
        ),
    )
    hub_folder.write_sentences(settings.to, model, modules, more)


def _read_details(source: _Source) -> config_files.Details | None:
    """Return what a Hugging Face folder says about a classifier's outputs."""
    is_classifier = source.names & layouts.labelled()
    if not is_classifier or not huggingface.is_folder(source.path):
        return None
    return huggingface.read_details(source.path)


_WRITERS = {"tf1": _write_tf1, "tf2": _write_tf2}
