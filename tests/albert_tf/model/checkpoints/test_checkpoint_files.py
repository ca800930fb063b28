"""Finding checkpoints, and TensorFlow's list of them."""

import hashlib
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.checkpoints import checkpoint_files, checkpoint_reader
from tests import tf1_checkpoints
from tests.conftest import FIXTURES, refused

RECORDED = str(FIXTURES / "original_tiny_lamb" / "model.ckpt-0")


@pytest.mark.parametrize(
    "suffix", ["", ".index", ".data-00000-of-00001", ".meta"]
)
def test_any_file_of_a_checkpoint_names_it(suffix):
    assert checkpoint_files.find(RECORDED + suffix) == RECORDED


def test_folder_means_its_best_checkpoint_else_its_latest(tmp_path):
    value = tf.train.Checkpoint(value=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(
        value, str(tmp_path), max_to_keep=2, checkpoint_name="model.ckpt"
    )
    manager.save(checkpoint_number=3)
    latest = manager.save(checkpoint_number=5)
    assert checkpoint_files.find(f"{tmp_path}/") == latest
    best = value.write(str(tmp_path / checkpoint_files.BEST_NAME))
    assert checkpoint_files.find(str(tmp_path)) == best


@pytest.mark.parametrize(
    "listed",
    ["/old/place/model.ckpt-5", "../model.ckpt-5", "gs://b/model.ckpt-5"],
)
def test_latest_checkpoint_is_taken_from_the_folder_itself(listed, tmp_path):
    for place in (tmp_path, tmp_path / "run"):
        place.mkdir(exist_ok=True)
        (place / "model.ckpt-5.index").write_bytes(b"")
    state = tmp_path / "run" / "checkpoint"
    state.write_text(f'model_checkpoint_path: "{listed}"\n')
    found = checkpoint_files.find(str(tmp_path / "run"))
    assert found == str(tmp_path / "run" / "model.ckpt-5")


def test_list_of_checkpoints_keeps_names_of_its_own_folder(tmp_path):
    for number in (1, 2, 10):
        path = tmp_path / f"model.ckpt-{number}.index"
        path.write_bytes(b"")
        os.utime(path, (0, 2_000_000_000.5 + number))
    lines = [f'model_checkpoint_path: "{RECORDED}"']
    for path in ("/old/place/model.ckpt-1", "/x/model.ckpt-7", "*"):
        lines.append(f'all_model_checkpoint_paths: "{path}"')
    (tmp_path / "checkpoint").write_text("\n".join(lines))
    checkpoint_files.clean_state(str(tmp_path))
    state = tf.train.get_checkpoint_state(str(tmp_path))
    names = [str(tmp_path / f"model.ckpt-{number}") for number in (1, 2, 10)]
    assert state.all_model_checkpoint_paths == names
    times = [
        time - 2_000_000_000 for time in state.all_model_checkpoint_timestamps
    ]
    assert times == [1.5, 2.5, 10.5]
    assert state.model_checkpoint_path == names[-1]


@pytest.mark.parametrize(
    ("listed", "is_relative"),
    [((), False), ((1, 2), True), ((1, 2), False), ((1, 2, 3), True)],
)
def test_all_checkpoints_of_a_killed_run_are_deleted_in_time(
    tmp_path, monkeypatch, listed, is_relative
):
    monkeypatch.chdir(tmp_path)
    folder = "run" if is_relative else str(tmp_path / "run")
    beside = [pathlib.Path(f"model.ckpt-{n}.index") for n in (1, 2, 3)]
    for path in beside:
        path.touch()
    value = tf.train.Checkpoint(value=tf.Variable(1.0))

    def manager():
        checkpoint_files.clean_state(folder)
        return tf.train.CheckpointManager(
            value, folder, max_to_keep=2, checkpoint_name="model.ckpt"
        )

    before = tf.train.CheckpointManager(
        value, folder, max_to_keep=None, checkpoint_name="model.ckpt"
    )
    for number in (1, 2, 3):
        before.save(checkpoint_number=number)
        if number in listed:
            state = pathlib.Path(folder, "checkpoint").read_bytes()
    # The list as it stood when the process was killed.
    if listed:
        pathlib.Path(folder, "checkpoint").write_bytes(state)
    else:
        pathlib.Path(folder, "checkpoint").unlink()
    manager().save(checkpoint_number=4)
    prefixes = [os.path.join(folder, f"model.ckpt-{n}") for n in (4, 3)]
    assert checkpoint_files.numbered(folder) == prefixes
    assert tf.train.latest_checkpoint(folder) == prefixes[0]
    assert manager().checkpoints == prefixes[::-1]
    assert all(path.exists() for path in beside)


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("best", [True, False])
def test_what_killed_saves_left_is_removed(tmp_path, numbered, best):
    """TensorFlow deletes the index first; its list has another name first."""
    data = "model.ckpt-{}.data-00000-of-00001"
    kept = {"model.ckpt-6.index", data.format(6), "checkpoint.tmp1"}
    of_numbers = {
        data.format(4),
        "model.ckpt-4_temp",
        f"checkpoint.tmp{'0a' * 16}",
    }
    of_best = {data.format("best"), "model.ckpt-best_temp"}
    of_best |= {name.replace("best", "best_new") for name in of_best}
    of_best |= {"model.ckpt-best_new.index"}
    for name in kept | of_numbers | of_best:
        path = tmp_path / name
        path.mkdir() if name.endswith("_temp") else path.touch()
    checkpoint_files.remove_unfinished(
        str(tmp_path), numbered=numbered, best=best
    )
    kept |= (set() if numbered else of_numbers) | (set() if best else of_best)
    assert {p.name for p in tmp_path.iterdir()} == kept


def best_and_new(folder):
    """Write two checkpoints; return the prefixes."""
    names = checkpoint_files.BEST_NAME, checkpoint_files.NEW_BEST_NAME
    values = {"a": np.zeros(9, "f4")}, {"a": np.ones(9, "f4")}
    return [
        tf1_checkpoints.write(folder / name, value)
        for name, value in zip(names, values, strict=True)
    ]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_killed_replacement_is_completed(tmp_path, is_first):
    best, new = best_and_new(tmp_path)
    if is_first:
        os.remove(f"{best}.index")
    ending = ".data-00000-of-00001"
    os.replace(new + ending, best + ending)
    checkpoint_files.remove_unfinished(str(tmp_path))
    assert {p.name for p in tmp_path.iterdir() if "new" in p.name} == set()
    assert tf.train.load_checkpoint(best).get_tensor("a").tolist() == [1] * 9


def test_a_best_checkpoint_is_replaced_while_it_is_read(tmp_path, monkeypatch):
    """What is open stays; one file of each is noticed, and read again."""
    best, new = best_and_new(tmp_path)
    load = tf.train.load_checkpoint

    def meanwhile(prefix):
        monkeypatch.undo()
        reader = load(prefix)
        checkpoint_files.replace(new, best)
        return reader

    monkeypatch.setattr(tf.train, "load_checkpoint", meanwhile)
    found = checkpoint_reader.read(best)
    assert found.load(["a"])["a"].tolist() == [1] * 9

    best, new = best_and_new(tmp_path)
    found = checkpoint_reader.read(best)
    assert found.load(["a"])["a"].tolist() == [0] * 9
    checkpoint_files.replace(new, best)
    assert found.load(["a"])["a"].tolist() == [0] * 9


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001", ".meta"])
def test_a_folder_may_be_called_as_a_file_of_a_checkpoint(tmp_path, ending):
    folder = tmp_path / f"run{ending}"
    folder.mkdir()
    best, _ = best_and_new(folder)
    for path in (folder, f"{folder}/", best):
        assert checkpoint_files.find(str(path)) == best
    with refused(r"neither a folder nor a check"):
        checkpoint_files.find(str(tmp_path / "run"))


def test_list_of_nothing_in_its_folder_is_removed(tmp_path):
    path = tmp_path / "checkpoint"
    for text in ('model_checkpoint_path: "/x/model.ckpt-1"', "", "\xff", "x {"):
        path.write_text(text, encoding="latin-1")
        checkpoint_files.clean_state(str(tmp_path))
        assert not path.exists()
    checkpoint_files.clean_state(str(tmp_path))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("empty", "`checkpoint=.*` .* does not say"),
        ("x", "`checkpoint=.*`.*/x.index does not exist"),
        # Its list names one in another folder.
        ("run", "does not say which"),
        ("run/checkpoint", "`checkpoint=.*/run/checkpoint` is a file, but no"),
        ("several", "one of a, b, c, d, model.ckpt-5 there"),
    ],
)
def test_what_names_no_checkpoint_is_an_error(tmp_path, path, message):
    for name in ("empty", "run", "several"):
        (tmp_path / name).mkdir()
    for name in ("", "several/"):
        (tmp_path / f"{name}model.ckpt-5.index").touch()
    for name in "dacbz":
        (tmp_path / "several" / f"{name}.index").touch()
    (tmp_path / "several" / "checkpoint").write_bytes(b"\xff\xfe")
    (tmp_path / "run" / "checkpoint").write_text(
        f'model_checkpoint_path: "{tmp_path}/model.ckpt-5"\n'
    )
    with refused(message):
        checkpoint_files.find(str(tmp_path / path), "checkpoint")


def test_unpacked_hub_module_is_found(tmp_path):
    folder = tmp_path / "hub"
    (folder / "variables").mkdir(parents=True)
    for path in (FIXTURES / "original_tiny_lamb").glob("model.ckpt-0.*"):
        name = path.name.replace("model.ckpt-0", "variables")
        shutil.copy(path, folder / "variables" / name)
    assert checkpoint_files.find(str(folder)) == str(
        folder / "variables/variables"
    )


def test_another_safetensors_file_is_an_error(tmp_path):
    folder = tmp_path / "hf"
    shutil.copytree(FIXTURES / "huggingface_tiny", folder)
    assert checkpoint_files.find(str(folder / "model.safetensors")) == str(
        folder
    )
    (folder / "adapter.safetensors").write_bytes(b"")
    with refused("is not the model.safetensors"):
        checkpoint_files.find(str(folder / "adapter.safetensors"))


def test_explanations_have_no_names_of_operations():
    error = tf.errors.ResourceExhaustedError(
        None, None, "{{function_node __wrapped__X}} No space left [Op:SaveV2]"
    )
    assert checkpoint_files.short_message(error) == "No space left"
    message = str(checkpoint_files.write_error("x", error))
    assert message.startswith("Cannot write x: No space left. Make room")


def test_fingerprints_are_hashes_of_weights(tmp_path):
    def sha256(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()

    index = pathlib.Path(f"{RECORDED}.index")
    assert checkpoint_files.fingerprint(RECORDED) == sha256(index)
    folder = FIXTURES / "huggingface_tiny"
    found = checkpoint_files.fingerprint(str(folder))
    assert found == sha256(folder / "model.safetensors")
