"""The exported step: the same update as TensorFlow's, run by jax.

jax has an environment of its own. The half of the tests that runs programs has
a mark, and `make test-jax` runs it.
"""

import dataclasses
import json
import os
import re
import resource
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf import export_train_step
from albert_tf.common import errors
from albert_tf.data import inputs, record_check
from albert_tf.model import modeling
from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.heads import pretraining
from albert_tf.training import evaluation
from tests.albert_tf.data.small_records import MANIFEST
from tests.exported_steps import (
    BATCH,
    CONFIG,
    STEPS,
    damaged_npz,
    load,
    make_batches,
    make_options,
    metrics,
    run_program,
    write_batches,
    write_records,
)

EXACT_GELU_AND_DROPOUT = {
    "hidden_act": "gelu_erf",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
# Five steps in float32, the sums in another order.
FLOAT32 = 1e-5
# Eight bits of precision.
BFLOAT16 = 1e-2


def train_with_tensorflow(settings, config, compiled):
    """Numbers of every update, and the variables after the last one."""
    step = export_train_step.make_step(config, settings)
    update = tf.function(lambda batch: step(batch), jit_compile=compiled)
    rows = []
    for batch in make_batches():
        tensors = {name: tf.constant(value) for name, value in batch.items()}
        rows.append(update(tensors).numpy())
    values = {
        name: variable.numpy()
        for name, variable in export_train_step.variables_of(step).items()
    }
    lines = [step.summarize(row[None]) for row in rows]
    for line in lines:
        del line["learning_rate"]  # That after the last update.
    return lines, values


def train_with_jax(python, settings):
    """The same as `train_with_tensorflow`, from the exported files."""
    export_train_step.run(settings)
    folder = settings.output_dir
    write_batches(folder)
    *lines, measured = run_program(
        python,
        f"--program={folder}",
        f"--batches={folder}/batches",
        f"--output_dir={folder}/run",
        "--log_steps=1",
    )
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    assert measured["sequences_per_second"] > 0
    return list(map(metrics, lines)), load(f"{folder}/run/variables.npz")


def kind_of(name):
    return name.split("/")[0] if name.startswith("adam_") else "weight"


def assert_close(ours, theirs, tolerance):
    """Compare; moments are measured by the largest of their kind."""
    largest = {"weight": 1.0}
    for name, value in theirs.items():
        if kind_of(name) != "weight":
            before = largest.get(kind_of(name), 0.0)
            largest[kind_of(name)] = max(before, np.abs(value).max())
    for name, value in ours.items():
        np.testing.assert_allclose(
            value,
            theirs[name],
            rtol=tolerance,
            atol=tolerance * largest[kind_of(name)],
            err_msg=name,
        )


@pytest.mark.jax
@pytest.mark.parametrize(
    "sentence_objective, optimizer, changes",
    [
        ("sop", "lamb", {}),
        ("nsp", "adamw", {"gradient_accumulation_steps": 2}),
        ("none", "lamb", {"recompute": True}),
        ("sop", "lamb", {"loop_layers": True}),
        ("sop", "adamw", {"objective": "rtd"}),
        ("sop", "muon", {}),
    ],
)
def test_five_steps_equal_those_of_tensorflow(
    jax_python, tmp_path, sentence_objective, optimizer, changes
):
    settings = make_options(
        tmp_path,
        sentence_objective=sentence_objective,
        optimizer=optimizer,
        **changes,
    )
    found = train_with_jax(jax_python, settings)
    copies = dataclasses.replace(settings, loop_layers=False)
    expected = train_with_tensorflow(copies, CONFIG, compiled=False)
    assert_same_training(found, expected, FLOAT32)


@pytest.mark.jax
def test_dropout_is_that_of_a_step_that_tensorflow_compiles(
    jax_python, tmp_path
):
    config = dataclasses.replace(
        CONFIG, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1
    )
    settings = make_options(tmp_path, config)
    found = train_with_jax(jax_python, settings)
    expected = train_with_tensorflow(settings, config, compiled=True)
    assert_same_training(found, expected, FLOAT32)
    without, _ = train_with_tensorflow(settings, CONFIG, compiled=False)
    name = "masked_lm_loss"
    assert abs(found[0][0][name] - without[0][name]) > 100 * FLOAT32


@pytest.mark.jax
def test_bfloat16_stays_within_its_rounding(jax_python, tmp_path):
    settings = make_options(tmp_path, precision="bfloat16")
    found = train_with_jax(jax_python, settings)
    # Compiled, because what is rounded when is up to the compiler.
    expected = train_with_tensorflow(settings, CONFIG, compiled=True)
    assert_same_training(found, expected, BFLOAT16)
    text = (tmp_path / "step" / "train_step.mlir").read_text()
    assert re.search(r"stablehlo.dot.*xbf16>", text)
    assert {str(value.dtype) for value in found[1].values()} == {
        *("float32", "int32", "int64")
    }


def assert_same_training(found, expected, tolerance):
    for line, wanted in zip(found[0], expected[0], strict=True):
        assert line == pytest.approx(wanted, rel=tolerance, abs=tolerance)
    assert found[1].keys() == expected[1].keys()
    assert found[1]["iteration"] == STEPS
    assert_close(found[1], expected[1], tolerance)


@pytest.mark.jax
def test_evaluation_is_that_of_tensorflow(jax_python, tmp_path):
    settings = make_options(
        tmp_path,
        dataclasses.replace(CONFIG, hidden_dropout_prob=0.2),
        eval_batches_from=write_records(tmp_path, 2 * BATCH + 1),
    )
    export_train_step.run(settings)
    folder = settings.output_dir
    assert len(os.listdir(f"{folder}/eval_batches")) == 3
    line, found, _ = run_program(
        jax_python,
        f"--program={folder}",
        f"--eval_batches={folder}/eval_batches",
        f"--output_dir={folder}/run",
        *("--steps=2", "--devices=2"),
    )
    assert (line["split"], found["split"]) == ("train", "eval")
    config, _ = export_train_step._read_description(folder)
    step = export_train_step.make_step(config, settings)
    values = load(f"{folder}/run/variables.npz")
    for name, variable in export_train_step.variables_of(step).items():
        variable.assign(values[name])
    dataset = inputs.evaluation_dataset(
        [f"{tmp_path}/{number}.tfrecord" for number in range(2)],
        settings.layout,
        BATCH,
    )
    evaluator = evaluation.Evaluator(step.model, step.objective)
    expected = evaluator.evaluate(dataset)
    assert metrics(found) == pytest.approx(expected, rel=FLOAT32)


# Files, without jax.


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Folder of a program with three batches, and its options."""
    folder = tmp_path_factory.mktemp("exported")
    settings = make_options(
        folder, batches_from=write_records(folder), num_batches=3
    )
    export_train_step.run(settings)
    return settings.output_dir, settings


@pytest.fixture
def description(exported):
    with open(f"{exported[0]}/train_step.json") as stream:
        return json.load(stream)


@pytest.fixture
def variables(exported):
    with np.load(f"{exported[0]}/variables.npz") as stored:
        return dict(stored)


def test_description_names_what_goes_in_and_what_comes_out(
    description, variables
):
    by_role = {}
    for entry in description["arguments"]:
        by_role.setdefault(entry["role"], []).append(entry)
    assert {entry["name"] for entry in by_role["batch"]} == {
        *("input_ids", "input_mask", "segment_ids", "is_real_example"),
        *("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"),
        "next_sentence_labels",
    }
    for entry in by_role["variable"]:
        value = variables[entry["name"]]
        assert entry["shape"] == list(value.shape)
        assert entry["dtype"] == str(value.dtype)
    numbers, *changed = description["results"]
    assert numbers["role"] == "number"
    assert numbers["shape"] == [len(numbers["rows"]), 2]
    assert numbers["rows"][-2:] == ["gradient_norm", "skipped"]
    # The scale of the loss is that of float16.
    changing = [e for e in by_role["variable"] if e["name"] != "loss_scale"]
    assert sorted(changed, key=str) == sorted(changing, key=str)


def test_program_calls_nothing_that_only_one_device_has(exported):
    with open(f"{exported[0]}/train_step.mlir") as stream:
        text = stream.read()
    assert "stablehlo.dot" in text
    assert "custom_call" not in text


@pytest.mark.parametrize("config", [{}, EXACT_GELU_AND_DROPOUT])
def test_program_has_operations_of_stablehlo_only(tmp_path, config):
    settings = make_options(
        tmp_path,
        dataclasses.replace(CONFIG, **config),
        gradient_accumulation_steps=2,
        recompute=bool(config),
    )
    export_train_step.run(settings)
    text = (tmp_path / "step" / "train_step.mlir").read_text()
    operations = re.findall(r'^ *(?:%.* = )?"?(\w+)\.\w+', text, re.MULTILINE)
    assert set(operations) == {"func", "stablehlo"}
    # Nor in regions, or in another notation. What is left are attributes.
    assert not re.findall(r"\bm?hlo\.\w+ %", text)


def test_variables_are_those_that_a_run_starts_from(exported, variables):
    keras.utils.set_random_seed(exported[1].update.seed)
    model = pretraining.AlbertPretrainer(modeling.AlbertModel(CONFIG))
    weights = {checkpoint_reader.name_of(v): v.numpy() for v in model.variables}
    for name, value in weights.items():
        np.testing.assert_array_equal(variables.pop(name), value)
        for kind in ("adam_m", "adam_v"):
            assert not variables.pop(f"{kind}/{name}").any()
    assert variables == {
        "iteration": 0,
        "skipped": 0,
        "skipped_in_row": 0,
        "good_in_row": 0,
        "loss_scale": 1,
    }


def test_weights_of_a_checkpoint_are_exported(exported, tmp_path, monkeypatch):
    folder, settings = exported
    with np.load(f"{folder}/variables.npz") as stored:
        values = {n: v for n, v in stored.items() if n.startswith(("b", "c"))}
    names = sorted(values)
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "model.ckpt-best"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[values[name] + 1 for name in names],
    )
    program = export_train_step.Program("", (), ())
    monkeypatch.setattr(export_train_step, "lower", lambda *_: program)
    other = make_options(
        tmp_path, init_checkpoint=str(tmp_path / "model.ckpt-best")
    )
    export_train_step.run(other)
    with np.load(f"{other.output_dir}/variables.npz") as stored:
        for name, value in values.items():
            np.testing.assert_array_equal(stored[name], value + 1)


def test_batches_are_those_of_training_in_its_order(exported):
    folder, settings = exported
    paths = [f"{folder}/../{number}.tfrecord" for number in range(2)]
    dataset = inputs.training_dataset(
        paths, settings.layout, BATCH, seed=settings.update.seed
    )
    stored = sorted(os.listdir(f"{folder}/batches"))
    assert len(stored) == 3
    batches = dataset.take(3).as_numpy_iterator()
    for name, batch in zip(stored, batches, strict=True):
        with np.load(f"{folder}/batches/{name}") as arrays:
            assert batch.keys() - set(arrays.files) == {"token_boundary"}
            for key in arrays.files:
                np.testing.assert_array_equal(arrays[key], batch[key])
                assert arrays[key].dtype == batch[key].dtype


def test_trained_variables_become_a_checkpoint(exported, variables, tmp_path):
    folder, _ = exported
    generator = np.random.default_rng(1)
    for name, value in variables.items():
        if value.shape:
            variables[name] = generator.normal(size=value.shape).astype("f")
    variables["iteration"] = np.array(7)
    np.savez(tmp_path / "w.npz", **variables)
    export_train_step.run(
        export_train_step.ExportOptions(
            output_dir=folder, to_checkpoint=str(tmp_path / "w.npz")
        )
    )
    checkpoint = checkpoint_reader.read(folder)
    assert checkpoint.path == f"{folder}/model.ckpt-7"
    assert checkpoint.config == CONFIG
    model = pretraining.AlbertPretrainer(modeling.AlbertModel(CONFIG))
    assert not restoring.restore(model, checkpoint).new
    for variable in model.variables:
        name = checkpoint_reader.name_of(variable)
        np.testing.assert_array_equal(variable.numpy(), variables[name])
        moment = checkpoint.load([f"{name}/adam_v"])[f"{name}/adam_v"]
        np.testing.assert_array_equal(moment, variables[f"adam_v/{name}"])
    assert checkpoint.load(["global_step"])["global_step"] == 7


def test_an_export_goes_on_from_a_checkpoint(
    exported, variables, tmp_path, monkeypatch
):
    folder, first = exported
    for name in variables:
        if name.startswith("adam_"):
            variables[name] += 0.5
    variables["iteration"] = np.array(2)
    np.savez(tmp_path / "w.npz", **variables)
    prefix = export_train_step.write_checkpoint(folder, str(tmp_path / "w.npz"))
    program = export_train_step.Program("", (), ())
    monkeypatch.setattr(export_train_step, "lower", lambda *_: program)
    settings = make_options(
        tmp_path,
        init_checkpoint=prefix,
        init_schedule="continue",
        batches_from=first.batches_from,
        num_batches=2,
    )
    export_train_step.run(settings)
    with np.load(f"{settings.output_dir}/variables.npz") as stored:
        for name, value in variables.items():
            np.testing.assert_array_equal(stored[name], value, name)
    batches = f"{settings.output_dir}/batches"
    assert sorted(os.listdir(batches)) == ["00000002.npz", "00000003.npz"]
    with (
        np.load(f"{batches}/00000002.npz") as here,
        np.load(f"{folder}/batches/00000002.npz") as there,
    ):
        np.testing.assert_array_equal(here["input_ids"], there["input_ids"])


@pytest.mark.parametrize("name", ["num_batches", "num_eval_batches"])
def test_a_number_of_batches_needs_records(tmp_path, name):
    source = name.removeprefix("num_") + "_from"
    message = f"`{name}=3` says how many .* `{source}`, which is not given"
    settings = make_options(tmp_path, **{name: 3})
    with pytest.raises(errors.UserError, match=message):
        export_train_step.run(settings)


@pytest.mark.parametrize(
    "written", [{"sentence_objective": "nsp"}, {"random_next_sentence": True}]
)
def test_records_of_another_objective_are_refused(
    tmp_path, monkeypatch, written
):
    manifest = dataclasses.replace(MANIFEST, options=written)
    monkeypatch.setattr(record_check, "check_records", lambda *_: [manifest])
    settings = make_options(tmp_path, batches_from=write_records(tmp_path))
    with pytest.raises(errors.UserError, match="a.tfrecord were written for n"):
        export_train_step.run(settings)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda v: v.pop("iteration"), "only one of them has iteration"),
        (
            lambda v: v.update({"cls/predictions/output_bias": np.zeros(3)}),
            r"output_bias is float64 \[3\], the program's is float32 \[40\]",
        ),
        (
            lambda v: v["adam_v/cls/predictions/output_bias"].fill(np.nan),
            "output_bias holds numbers that are not finite",
        ),
    ],
)
def test_variables_of_something_else_are_refused(
    exported, variables, tmp_path, change, message
):
    change(variables)
    np.savez(tmp_path / "w.npz", **variables)
    with pytest.raises(errors.UserError, match=message):
        export_train_step.write_checkpoint(exported[0], str(tmp_path / "w.npz"))


def test_a_full_disk_is_named_and_leaves_no_part_of_a_checkpoint(
    exported, variables, tmp_path
):
    folder = tmp_path / "step"
    folder.mkdir()
    shutil.copy(f"{exported[0]}/train_step.json", folder)
    np.savez(tmp_path / "w.npz", **variables)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**12, limits[1]))
    try:  # A file that grows above the limit finds no room.
        with pytest.raises(OSError, match="checkpoint to .*Make room"):
            export_train_step.write_checkpoint(
                str(folder), str(tmp_path / "w.npz")
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(folder.glob("model.ckpt*"))


def test_files_that_are_none_are_refused(exported, tmp_path):
    write = export_train_step.write_checkpoint
    with pytest.raises(errors.UserError, match="not a file"):
        write(exported[0], str(tmp_path / "missing.npz"))
    with open(tmp_path / "array.npy", "wb") as stream:
        np.save(stream, np.zeros(3))
    array = (tmp_path / "array.npy").read_bytes()
    for content in (b"PK\x03\x04", b"", array, damaged_npz()):
        (tmp_path / "w.npz").write_bytes(content)
        with pytest.raises(errors.UserError, match="not a whole npz file"):
            write(exported[0], str(tmp_path / "w.npz"))
    with pytest.raises(errors.UserError, match="holds no train_step.json"):
        write(str(tmp_path), str(tmp_path / "w.npz"))
    (tmp_path / "train_step.json").write_text("{}")
    with pytest.raises(errors.UserError, match="Export the program again"):
        write(str(tmp_path), str(tmp_path / "w.npz"))


def test_a_program_is_replaced_only_when_asked(tmp_path, monkeypatch):
    program = export_train_step.Program("text", (), ())
    monkeypatch.setattr(export_train_step, "lower", lambda *_: program)
    settings = make_options(
        tmp_path, batches_from=write_records(tmp_path), num_batches=3
    )
    export_train_step.run(settings)
    with pytest.raises(errors.UserError, match="--overwrite"):
        export_train_step.run(settings)
    export_train_step.run(
        dataclasses.replace(settings, overwrite=True, num_batches=1)
    )
    assert len(os.listdir(tmp_path / "step" / "batches")) == 1


@pytest.mark.parametrize("overwrite", [True, False])
def test_variables_without_a_program_are_not_replaced(tmp_path, overwrite):
    """They may be those of a training."""
    settings = make_options(tmp_path, overwrite=overwrite)
    (tmp_path / "step").mkdir()
    (tmp_path / "step/variables.npz").write_bytes(b"learned")
    with pytest.raises(errors.UserError, match="but variables.npz, perhaps"):
        export_train_step.run(settings)
    assert (tmp_path / "step/variables.npz").read_bytes() == b"learned"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"albert_config_file": None}, "--albert_config_file is not given"),
        ({"train_batch_size": 0}, "`train_batch_size=0` is below 1"),
        (
            {"gradient_accumulation_steps": 3},
            "--train_batch_size=4 is not a multiple of",
        ),
        ({"num_warmup_steps": 21}, "`num_warmup_steps=21` is more than"),
        ({"seed": -1}, "`seed=-1` is below 0"),
        ({"sentence_factor": -1.0}, "`sentence_factor=-1.0` is below 0"),
        (
            {"init_schedule": "continue"},
            "`init_checkpoint`, which is not given",
        ),
        ({"max_seq_length": 17}, "longer than the 16 positions"),
        ({"output_dir": "gs://bucket/x"}, "gs://bucket/x is remote"),
        ({"batches_from": "missing/*"}, "`batches_from=missing/"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_built(
    tmp_path, changes, message
):
    with pytest.raises(errors.UserError, match=message):
        export_train_step.run(make_options(tmp_path, **changes))


def test_a_program_of_another_form_is_refused():
    specs = {"x": tf.TensorSpec([2], tf.int32)}
    program = export_train_step.Program(
        "func.func @main(%arg0: tensor<3xi32>) -> (tensor<1x2xf32>) {",
        ("x",),
        ("numbers",),
    )
    with pytest.raises(RuntimeError, match="orders the arguments"):
        export_train_step._check_form(program, specs)
