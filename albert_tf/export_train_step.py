"""Export the whole pretraining step as a program that needs no TensorFlow.

    python -m albert_tf.export_train_step --output_dir=step \
        --albert_config_file=configs/models/albert_base_v2.json \
        --train_batch_size=32 --max_seq_length=128 --precision=bfloat16

The program is StableHLO: variables and a batch go in, variables and numbers
come out, forward pass to optimizer. benchmarks/run_train_step runs it with jax
on a CPU, GPU or TPU. --batches_from writes batches for it to train on,
--eval_batches_from an evaluation and its batches, and --to_checkpoint makes a
checkpoint of what it hands back (docs/train_step.md).
"""

import dataclasses
import glob
import io
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import (
    errors,
    files,
    folder_lock,
    options,
    ranges,
    shared_options,
    strict_json,
)
from albert_tf.common.options import checked, option
from albert_tf.data import layouts, record_check
from albert_tf.training import pretraining_options, training_options


@dataclasses.dataclass(frozen=True)
@checked
class ExportOptions:
    """Options of export_train_step; those of run_pretraining mean the same."""

    output_dir: str = option(help="Folder to write to.")
    albert_config_file: str | None = option(
        None,
        "JSON file with the architecture, or a released model such as "
        "albert_base_v2.",
    )
    train_batch_size: int = shared_options.batch_size(4096)
    max_seq_length: int = shared_options.max_seq_length("as in the records")
    max_predictions_per_seq: int = option(
        20, "Most pieces to predict in one sequence.", within=ranges.TOKENS
    )
    loop_layers: bool = option(
        False,
        "Whether the program has a loop over the layers instead of a copy of "
        "its body for each: it is smaller and compiles faster for TPUs, but a "
        "step needs more memory. For models whose layers share all weights.",
    )
    batches_from: str | None = option(
        None,
        "TFRecords to write batches from, in the order of training: files or "
        "glob patterns, with commas. They must hold masks.",
    )
    num_batches: int = option(
        100, "Batches to write with --batches_from.", within=ranges.STEPS
    )
    eval_batches_from: str | None = option(
        None,
        "TFRecords to evaluate on, as --batches_from. The evaluation is "
        "written as a second program.",
    )
    num_eval_batches: int = option(
        100,
        "Batches to write with --eval_batches_from, at most.",
        within=ranges.STEPS,
    )
    to_checkpoint: str | None = option(
        None,
        "Variables that benchmarks/run_train_step has written, to make a "
        "checkpoint of, in --output_dir, which must hold the program. Nothing "
        "else is done, and options are those of the program.",
    )
    overwrite: bool = shared_options.overwrite("program in --output_dir")
    update: training_options.UpdateOptions = dataclasses.field(
        default_factory=training_options.UpdateOptions
    )
    recipe: pretraining_options.RecipeOptions = dataclasses.field(
        default_factory=pretraining_options.RecipeOptions
    )

    def __post_init__(self) -> None:
        if not (self.albert_config_file or self.to_checkpoint):
            raise errors.UserError(
                "--albert_config_file is not given. Name the JSON file with "
                "the architecture."
            )
        microbatches = self.update.gradient_accumulation_steps
        if self.train_batch_size % microbatches:
            raise errors.UserError(
                f"--train_batch_size={self.train_batch_size} is not a multiple "
                "of --gradient_accumulation_steps="
                f"{microbatches}. Change one of the two."
            )

    @property
    def layout(self) -> layouts.Layout:
        """Layout of the records."""
        return layouts.pretraining_layout(
            self.max_seq_length, self.max_predictions_per_seq
        )


if __name__ == "__main__":
    options.check_command_line(ExportOptions)

import tensorflow as tf
import tf_keras as keras

from albert_tf.data import inputs
from albert_tf.model import fit, modeling
from albert_tf.model.checkpoints import (
    checkpoint_files,
    checkpoint_reader,
    restoring,
)
from albert_tf.training import pretraining_recipe, train_step, word_embeddings

PROGRAM_NAME = "train_step.mlir"
EVALUATION_NAME = "eval_step.mlir"
DESCRIPTION_NAME = "train_step.json"
VARIABLES_NAME = "variables.npz"
BATCHES_NAME = "batches"
EVAL_BATCHES_NAME = "eval_batches"

# What the only result that is not a variable is called.
NUMBERS = "numbers"
# What TensorFlow returns a changed variable through. It is not StableHLO, and
# TPU compilers refuse it.
_COPY = re.compile(r"mhlo\.copy (%\w+) : (tensor<[^>]*>)")
# A feature of the records that no training reads.
_UNUSED = "token_boundary"


@dataclasses.dataclass(frozen=True)
class Program:
    """An update, or an evaluation, as an XLA program.

    Attributes:
        text: StableHLO, no other dialect. Its module says which result may take
            the memory of which argument.
        arguments: Names in order: those of the batch, then variables.
        results: Names in order: `numbers`, then the variables that change.
    """

    text: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]


# The update, and the evaluation if there is one.
Programs = tuple[Program, Program | None]


def run(settings: ExportOptions) -> None:
    """Write the program and its files, or a checkpoint."""
    _refuse_remote(settings.output_dir)
    with folder_lock.hold(settings.output_dir, "output_dir"):
        if settings.to_checkpoint:
            prefix = write_checkpoint(
                settings.output_dir, settings.to_checkpoint
            )
            logging.info("Wrote %s.", prefix)
        else:
            _export(settings)


def _export(settings: ExportOptions) -> None:
    """Write the program, its variables and, if asked for, batches."""
    _check_numbers(settings)
    config = modeling.AlbertConfig.from_json_file(
        str(settings.albert_config_file)
    )
    fit.check_length(
        settings.max_seq_length, config, str(settings.albert_config_file)
    )
    paths = _find_records(settings, config, "batches_from")
    eval_paths = _find_records(settings, config, "eval_batches_from")
    _check_target(settings)
    step = make_step(config, settings)
    recipe = settings.recipe
    restoring.initialize(step.model, recipe.init)
    if recipe.word_embeddings_file:
        table = word_embeddings.read(recipe.word_embeddings_file, config)
        word_embeddings.assign(step.model, table)
    if recipe.init_schedule == "continue":
        restoring.restore_optimizer(
            step.optimizer,
            step.model.trainable_variables,
            str(recipe.init.init_checkpoint),
        )
    specs, known = batch_specs(settings), variables_of(step)
    evaluation = None
    if eval_paths:
        evaluation = lower(evaluation_of(step), specs, known)
        _write_evaluation_batches(eval_paths, settings)
    program = lower(step, specs, known)
    _write((program, evaluation), step, config, settings)
    # Last, because a program can train on them while they are written.
    if paths:
        _write_batches(paths, settings, int(step.optimizer.iterations.numpy()))


def _check_numbers(settings: ExportOptions) -> None:
    """Refuse a number of batches without records to make them of.

    Raises:
        errors.UserError: There is one.
    """
    for name in ("num_batches", "num_eval_batches"):
        source = f"{name.removeprefix('num_')}_from"
        is_given = getattr(settings, name) != getattr(ExportOptions, name)
        if is_given and not getattr(settings, source):
            raise errors.UserError(
                f"says how many batches to write from `{source}`, which is "
                f"not given. Add it, or leave out `{name}`.",
                name,
                getattr(settings, name),
            )


def _find_records(
    settings: ExportOptions, config: modeling.AlbertConfig, option_name: str
) -> list[str]:
    """Return the record files that an option names, to write batches from."""
    patterns: str | None = getattr(settings, option_name)
    if patterns is None:
        return []
    paths = files.expand_patterns(patterns, option_name, files.BESIDE_RECORDS)
    manifests = record_check.check_records(
        paths,
        record_check.Expected(
            settings.max_seq_length,
            settings.max_predictions_per_seq,
            config.vocab_size,
        ),
        option_name,
    )
    wanted = settings.recipe.sentence_objective
    for manifest in manifests:
        written = manifest.sentence_objective
        if wanted not in ("none", written):
            raise errors.UserError(
                f"--sentence_objective={wanted}, but the records "
                f"{', '.join(manifest.shards)} were written for {written}. Use "
                f"--sentence_objective={written}, or none, or other records."
            )
    return paths


def _refuse_remote(folder: str) -> None:
    """Refuse a folder that is not local.

    Raises:
        errors.UserError: It is.
    """
    if files.is_remote(folder):
        raise errors.UserError(
            f"--output_dir={folder} is remote. Write to a local folder, and "
            "copy it."
        )


def _check_target(settings: ExportOptions) -> None:
    """Remove an old program, if it may be replaced.

    Raises:
        errors.UserError: There is one.
    """
    folder = settings.output_dir
    if files.exists(os.path.join(folder, DESCRIPTION_NAME)):
        if not settings.overwrite:
            raise errors.UserError(
                f"--output_dir={folder} already holds a program. Choose "
                "another folder, or replace it with --overwrite."
            )
        # Without a description it is no program any more.
        os.remove(os.path.join(folder, DESCRIPTION_NAME))
        for path in _batch_files(folder):
            os.remove(path)
    elif files.exists(os.path.join(folder, VARIABLES_NAME)):
        raise errors.UserError(
            f"--output_dir={folder} has no program, but {VARIABLES_NAME}, "
            "perhaps of a training. Choose another folder."
        )
    files.make_folder(folder, "output_dir")


def _batch_files(folder: str) -> list[str]:
    found: list[str] = []
    for name in (BATCHES_NAME, EVAL_BATCHES_NAME):
        found += glob.glob(os.path.join(glob.escape(folder), name, "*.npz"))
    return found


def make_step(
    config: modeling.AlbertConfig, settings: ExportOptions
) -> train_step.TrainStep:
    """Build model, optimizer and guard, with the random weights of a run."""
    recipe, update = settings.recipe, settings.update
    keras.utils.set_random_seed(update.seed)
    model = pretraining_recipe.make_model(
        recipe, config, update, loop_layers=settings.loop_layers
    )
    optimizer = pretraining_recipe.make_optimizer(recipe, update.precision)
    optimizer.build(model.trainable_variables)
    return train_step.TrainStep(
        model,
        optimizer,
        pretraining_recipe.make_objective(recipe),
        train_step.Guard(update.precision),
        update.gradient_accumulation_steps,
        update.seed,
    )


def variables_of(step: train_step.TrainStep) -> dict[str, tf.Variable]:
    """Return all that an update may change, by the names of checkpoints.

    These are weights, the moments `adam_m/WEIGHT` and `adam_v/WEIGHT`, the
    step `iteration` and the counters of the guard.
    """
    found: dict[str, tf.Variable] = {}
    for variable in (
        *step.model.variables,
        *step.optimizer.adam_m,
        *step.optimizer.adam_v,
        step.optimizer.iterations,
        *step.guard.variables,
    ):
        found[checkpoint_reader.name_of(variable)] = variable
    return found


def batch_specs(settings: ExportOptions) -> dict[str, tf.TensorSpec]:
    """Return names, shapes and types of what a batch consists of."""
    size = settings.train_batch_size
    specs = {
        feature.name: tf.TensorSpec(
            [size, *feature.shape],
            tf.float32 if feature.dtype == "float32" else tf.int32,
        )
        for feature in settings.layout
        if feature.name != _UNUSED
    }
    return {**specs, "is_real_example": tf.TensorSpec([size], tf.int32)}


def evaluation_of(
    step: train_step.TrainStep,
) -> Callable[[train_step.Batch], tf.Tensor]:
    """Return the losses and accuracies of a batch, without an update.

    Its result is float32 [names, (numerator, denominator)], to be added up
    over batches; the names are those of the objective.
    """

    def evaluate(batch: train_step.Batch) -> tf.Tensor:
        objective = step.objective
        return objective.stack(objective.ratios(step.model, batch))

    return evaluate


def lower(
    compute: Callable[[train_step.Batch], tf.Tensor],
    batch: Mapping[str, tf.TensorSpec],
    variables: Mapping[str, tf.Variable],
) -> Program:
    """Translate an update or an evaluation into a program.

    Args:
        compute: Takes a batch, and returns numbers.
        batch: From `batch_specs`.
        variables: From `variables_of`.

    Raises:
        RuntimeError: TensorFlow has made a program of another form.
    """
    function = tf.function(
        lambda batch: compute(batch), jit_compile=True, autograph=False
    )
    example = {n: tf.zeros(spec.shape, spec.dtype) for n, spec in batch.items()}
    concrete = function.get_concrete_function(example)
    text = function.experimental_get_compiler_ir(example)(stage="stablehlo")
    text = _without_copies(text)
    # TensorFlow flattens dictionaries in the order of their keys, and puts the
    # variables that a function uses behind its arguments.
    names = {id(variable.handle): n for n, variable in variables.items()}
    captured = [names[id(handle)] for handle in concrete.captured_inputs]
    arguments = (*sorted(batch), *captured)
    places = _aliases(text)
    results = (NUMBERS, *(arguments[places[i + 1]] for i in range(len(places))))
    program = Program(text, arguments, results)
    _check_form(program, {**batch, **variables})
    return program


def _without_copies(text: str) -> str:
    """Replace copies by reshapes to the same shape, which change nothing."""
    return _COPY.sub(r"stablehlo.reshape \1 : (\2) -> \2", text)


def _aliases(text: str) -> dict[int, int]:
    """Return which result of a program replaces which argument, by number."""
    header = text[: text.index("func.func")]
    pairs = re.findall(
        r"parameter_number = (\d+) : i64}, output_index = array<i64: (\d+)>",
        header,
    )
    return {int(result): int(argument) for argument, result in pairs}


def _check_form(program: Program, known: Mapping[str, Any]) -> None:
    """Compare the names with the types of the program's main function.

    Raises:
        RuntimeError: They do not agree.
    """
    line = re.search(r"func\.func @main\((.*)\) -> (.*) {", program.text)
    if not line:
        raise RuntimeError("The program has no main function.")
    found = [re.findall(r"tensor<([^>]*)>", part) for part in line.groups()]
    wanted = [
        [_type_name(known[name]) for name in names]
        for names in (program.arguments, program.results[1:])
    ]
    if [found[0], found[1][1:]] != wanted:
        raise RuntimeError(
            "TensorFlow orders the arguments of a program in another way than "
            "this module knows. Use the TensorFlow of requirements.txt."
        )


def _type_name(value: tf.TensorSpec | tf.Variable) -> str:
    """Return, for example, `4x16xf32`."""
    short = {tf.float32: "f32", tf.int32: "i32", tf.int64: "i64"}[value.dtype]
    return "x".join([*map(str, value.shape), short])


def describe(
    programs: Programs,
    step: train_step.TrainStep,
    config: modeling.AlbertConfig,
    settings: ExportOptions,
) -> dict[str, Any]:
    """Return what a program that runs the update must know, as JSON values."""
    update, evaluation = programs
    batch, variables = batch_specs(settings), variables_of(step)
    limits = _limits(config, settings)
    arrays = {
        name: _entry(name, array, limits)
        for name, array in {**batch, **variables}.items()
    }
    content = {
        **_form(PROGRAM_NAME, update, arrays, step.names),
        "variables": VARIABLES_NAME,
        # Name of each loss to its factor in the sum that is minimized.
        "losses": dict(step.objective.losses),
        "sequences": settings.train_batch_size,
        "tokens": settings.train_batch_size * settings.max_seq_length,
        # Of matrix products; what --recompute adds does not count.
        "model_flops": 3
        * settings.train_batch_size
        * pretraining_recipe.forward_flops(
            settings.recipe,
            config,
            settings.max_seq_length,
            settings.max_predictions_per_seq,
            None if settings.loop_layers else 1,
        ),
        "config": strict_json.loads(config.to_json()),
        "options": options.to_dict(settings),
    }
    if evaluation:
        content["evaluation"] = _form(
            EVALUATION_NAME, evaluation, arrays, step.objective.names
        )
    return content


def _form(
    name: str,
    program: Program,
    arrays: Mapping[str, dict[str, Any]],
    rows: tuple[str, ...],
) -> dict[str, Any]:
    """Return what the description says about a program.

    Args:
        name: Its file.
        program: Names of arguments and results.
        arrays: Name to what is said about it.
        rows: Names of its numbers.
    """
    numbers = {"name": NUMBERS, "role": "number", "dtype": "float32"} | {
        "shape": [len(rows), 2],
        "rows": list(rows),
    }
    known = {**arrays, NUMBERS: numbers}
    return {
        "program": name,
        "arguments": [known[n] for n in program.arguments],
        "results": [known[n] for n in program.results],
    }


def _entry(
    name: str,
    array: tf.TensorSpec | tf.Variable,
    limits: Mapping[str, tuple[int, int]],
) -> dict[str, Any]:
    """Return what the description says about an argument or a result."""
    entry = {
        "name": name,
        "role": "batch" if name in limits else "variable",
        "dtype": array.dtype.name,
        "shape": array.shape.as_list(),
    }
    if name in limits:
        entry["low"], entry["high"] = limits[name]
    return entry


def _limits(
    config: modeling.AlbertConfig, settings: ExportOptions
) -> dict[str, tuple[int, int]]:
    """Return the lowest and highest number that each array of a batch holds."""
    return {
        "input_ids": (0, config.vocab_size - 1),
        "input_mask": (0, 1),
        "segment_ids": (0, config.type_vocab_size - 1),
        "masked_lm_positions": (0, settings.max_seq_length - 1),
        "masked_lm_ids": (0, config.vocab_size - 1),
        "masked_lm_weights": (0, 1),
        "next_sentence_labels": (layouts.NO_LABEL, 1),
        "is_real_example": (0, 1),
    }


def _write(
    programs: Programs,
    step: train_step.TrainStep,
    config: modeling.AlbertConfig,
    settings: ExportOptions,
) -> None:
    """Write programs, variables and, last, the description."""
    folder = settings.output_dir
    values = {n: v.numpy() for n, v in variables_of(step).items()}
    program, evaluation = programs
    files.write_text(os.path.join(folder, PROGRAM_NAME), program.text)
    if evaluation:
        files.write_text(os.path.join(folder, EVALUATION_NAME), evaluation.text)
    # Compressed, because the moments are zeros.
    path = os.path.join(folder, VARIABLES_NAME)
    with files.replace_atomically(path, through_link=False) as stream:
        np.savez_compressed(stream, allow_pickle=False, **values)
    content = describe(programs, step, config, settings)
    files.write_text(
        os.path.join(folder, DESCRIPTION_NAME),
        strict_json.dumps(content, indent=1) + "\n",
    )
    logging.info(
        "Wrote %s: %s (%.1f MB), %d variables, %.1f GFLOP a step.",
        folder,
        PROGRAM_NAME,
        len(program.text) / 1e6,
        len(values),
        content["model_flops"] / 1e9,
    )


def _write_batches(
    paths: list[str], settings: ExportOptions, first_step: int
) -> None:
    """Write batches of a training run from a step on, a file for each."""
    with inputs.naming_damage(paths, settings.layout):
        dataset = inputs.training_dataset(
            paths,
            settings.layout,
            settings.train_batch_size,
            seed=settings.update.seed,
            first_step=first_step,
        ).take(settings.num_batches)
        _write_each(dataset, settings, BATCHES_NAME, first_step)


def _write_evaluation_batches(
    paths: list[str], settings: ExportOptions
) -> None:
    """Write the batches that run_pretraining evaluates on."""
    with inputs.naming_damage(paths, settings.layout):
        dataset = inputs.evaluation_dataset(
            paths,
            settings.layout,
            settings.train_batch_size,
            settings.num_eval_batches,
        )
        _write_each(dataset, settings, EVAL_BATCHES_NAME)


def _write_each(
    dataset: tf.data.Dataset,
    settings: ExportOptions,
    name: str,
    first_number: int = 0,
) -> None:
    """Write batches into a folder, each complete under its number."""
    folder = os.path.join(settings.output_dir, name)
    files.make_folder(folder, "output_dir")
    names, number = batch_specs(settings), first_number
    for number, batch in enumerate(dataset.as_numpy_iterator(), first_number):
        path = os.path.join(folder, f"{number:08d}.npz")
        with files.replace_atomically(path, through_link=False) as stream:
            np.savez(stream, **{name: batch[name] for name in names})
    logging.info("Wrote batches %d to %d to %s.", first_number, number, folder)


def write_checkpoint(folder: str, variables: str) -> str:
    """Make a checkpoint of this project out of a program's variables.

    Args:
        folder: Where the program is; the checkpoint is written beside it, with
            the architecture.
        variables: An npz file with all variables of the program.

    Returns:
        The prefix, `FOLDER/model.ckpt-STEP`.

    Raises:
        errors.UserError: A file is missing or damaged, or they do not belong
            together.
    """
    config, settings = _read_description(folder)
    values = _read_variables(variables)
    step = make_step(config, settings)
    known = variables_of(step)
    odd = values.keys() ^ known.keys()
    if odd:
        raise errors.UserError(
            f"--to_checkpoint={variables} does not belong to the program in "
            f"--output_dir={folder}: only one of them has {min(odd)}. Name the "
            "folder of the program that was run."
        )
    for name, value in values.items():
        _check_value(variables, name, value, known[name])
        known[name].assign(value)
    files.write_text(
        os.path.join(folder, checkpoint_reader.CONFIG_NAME), config.to_json()
    )
    checkpoint = tf.train.Checkpoint(
        model=step.model, optimizer=step.optimizer, guard=step.guard
    )
    checkpoint_files.remove_unfinished(folder)
    checkpoint_files.clean_state(folder)
    manager = tf.train.CheckpointManager(
        checkpoint, folder, max_to_keep=None, checkpoint_name="model.ckpt"
    )
    number = int(step.optimizer.iterations.numpy())
    try:
        return str(manager.save(checkpoint_number=number))
    except tf.errors.OpError as error:
        checkpoint_files.remove_unfinished(folder)
        raise checkpoint_files.not_written(
            f"a checkpoint to `output_dir={folder}`", error
        ) from None


def _read_description(
    folder: str,
) -> tuple[modeling.AlbertConfig, ExportOptions]:
    """Return architecture and options of a program."""
    path = os.path.join(folder, DESCRIPTION_NAME)
    if not files.exists(path):
        raise errors.UserError(
            f"--output_dir={folder} holds no {DESCRIPTION_NAME}. Name the "
            "folder of the program that was run."
        )
    try:
        content = strict_json.loads(files.read_bytes(path))
        config = modeling.AlbertConfig.from_dict(content["config"], path)
        settings = options.from_dict(ExportOptions, content["options"])
    except (
        *(KeyError, TypeError, AttributeError, OSError),
        *(strict_json.JsonError, errors.UserError),
    ) as error:
        raise errors.UserError(
            f"{path} is not what export_train_step has written: {error!r}. "
            "Export the program again."
        ) from None
    return config, settings


def _read_variables(path: str) -> dict[str, np.ndarray]:
    content = files.read_bytes(files.require_file(path, "to_checkpoint"))
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (
        *(EOFError, NotImplementedError, TypeError, ValueError),
        *(zipfile.BadZipFile, zlib.error),
    ) as error:
        raise errors.UserError(
            f"--to_checkpoint={path} is not a whole npz file: {error}. Name "
            "the variables.npz that benchmarks/run_train_step has written."
        ) from None


def _check_value(
    path: str, name: str, value: np.ndarray, variable: tf.Variable
) -> None:
    """Refuse what does not fit a variable, or is not finite.

    Raises:
        errors.UserError: See above.
    """
    shape = tuple(variable.shape)
    if value.shape != shape or value.dtype != variable.dtype.as_numpy_dtype:
        raise errors.UserError(
            f"--to_checkpoint={path}: {name} is {value.dtype} "
            f"{list(value.shape)}, the program's is {variable.dtype.name} "
            f"{list(shape)}. Name the folder of the program that was run."
        )
    if not np.isfinite(value).all():
        raise errors.UserError(
            f"--to_checkpoint={path}: {name} holds numbers that are not "
            "finite. The training has failed."
        )


if __name__ == "__main__":
    options.run_script(run, ExportOptions)
