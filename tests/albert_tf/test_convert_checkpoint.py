"""Converting checkpoints: round trips, what travels, what is refused."""

import dataclasses
import json
import pathlib
import resource
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import convert_checkpoint
from albert_tf.model.checkpoints import (
    checkpoint_reader,
    restoring,
    sentence_modules,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.model.optimizers import optimization
from albert_tf.serving import convert as conversion
from albert_tf.tasks.glue import specs
from albert_tf.tasks.table import data
from albert_tf.text import normalization, tokenization, wordpiece
from albert_tf.training import run_folder
from tests import brightmart_files, hugging_face_files, tf1_checkpoints
from tests.albert_tf.model import passes
from tests.albert_tf.model.models import MODELS
from tests.conftest import FIXTURES, refused

LAMB = FIXTURES / "original_tiny_lamb"

FORMATS = ("tf1", "tf2", "huggingface")
KEPT = normalization.Normalization(do_lower_case=False, keep_accents=True)
NONE = tokenization.VocabularyOptions()  # That beside the checkpoint.


def vocabulary_of(folder, size, word="w"):
    path = folder / f"vocab_{size}{word}.txt"
    letters = [f"##{i}" if i % 2 else f"{word}{i}" for i in range(size - 5)]
    path.write_text("\n".join([*wordpiece.SPECIAL_PIECES, *letters]) + "\n")
    return tokenization.VocabularyOptions(vocab_file=str(path))


def convert(source, target, name, **changes):
    if name == "huggingface" and "vocabulary" not in changes:
        config = checkpoint_reader.read(str(source)).config
        folder = pathlib.Path(target).parent.parent
        size = config.vocab_size if config else 400
        changes["vocabulary"] = vocabulary_of(folder, size)
    convert_checkpoint.run(
        convert_checkpoint.ConvertOptions(
            from_=str(source), to=str(target), format=name, **changes
        )
    )
    return target


def contents(path):
    checkpoint = checkpoint_reader.read(str(path))
    return checkpoint.load([*checkpoint.shapes, *checkpoint.state])


@pytest.fixture
def saved(small_config, tmp_path):
    def save(name, config=small_config, with_optimizer=False, make=None):
        make = make or MODELS[name]
        model = passes.fill(make(AlbertModel(config)), 0.5)
        parts = {"model": model}
        if with_optimizer:
            optimizer = optimization.Lamb(0.1)
            optimizer.build(model.trainable_variables)
            optimizer.apply_gradients(
                (tf.ones_like(v) * 0.5, v) for v in model.trainable_variables
            )
            parts["optimizer"] = optimizer
        folder = tmp_path / "source"
        folder.mkdir()
        prefix = str(folder / "model.ckpt-7")
        tf.train.Checkpoint(**parts).write(prefix)
        (folder / "albert_config.json").write_text(config.to_json())
        return prefix, model

    return save


@pytest.mark.parametrize("name", MODELS)
def test_round_trip_is_bit_equal(saved, tmp_path, name):
    prefix, model = saved(name)
    expected = contents(prefix)
    there = convert(prefix, tmp_path / "tf1" / "model.ckpt-best", "tf1")
    np.testing.assert_equal(contents(there), expected)
    if name in ("squad_v2", "vectors"):
        with refused("just .*SQuAD 2.0"):
            convert(there, tmp_path / "hf" / "x", "huggingface")
        assert not (tmp_path / "hf" / "x" / "model.safetensors").exists()
    else:
        there = convert(there, tmp_path / "hf" / "x", "huggingface")
        np.testing.assert_equal(contents(there), expected)
    back = convert(there, tmp_path / "back" / "model.ckpt-best", "tf2")
    np.testing.assert_equal(contents(back), expected)
    other = MODELS[name](AlbertModel(encoder_of(model).config))
    restoring.restore(other, str(back))
    np.testing.assert_equal(passes.values(other), expected)


def encoder_of(model):
    return getattr(model, "encoder", model)


def test_brightmarts_layout_is_converted_or_refused(tmp_path):
    """Whole, with its heads; the names become those of this project."""
    given = brightmart_files.archive(tmp_path / "albert_tiny")
    prefix = given.pop("init_checkpoint")
    with refused("project_words_first=True has"):
        convert(
            prefix, tmp_path / "hf", "huggingface", vocabulary=NONE, **given
        )
    assert not (tmp_path / "hf" / "config.json").exists()
    there = convert(prefix, tmp_path / "there" / "x", "tf2", **given)
    np.testing.assert_equal(contents(there), contents(prefix))
    config = checkpoint_reader.read(str(there)).config
    assert config.project_words_first
    with refused("in the original release"):
        convert(there, tmp_path / "back" / "x", "tf1")
    assert not list((tmp_path / "back").glob("[!.]*"))


def test_names_of_classes_are_said_where_they_have_no_place(
    saved, tmp_path, caplog
):
    prefix, _ = saved("classifier")
    folder = convert(prefix, tmp_path / "hf", "huggingface")
    convert(folder, tmp_path / "one" / "x", "tf1")
    assert "names of the classes" not in caplog.text
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "no", "1": "maybe", "2": "yes"}
    (folder / "config.json").write_text(json.dumps(config))
    convert(folder, tmp_path / "two" / "x", "tf1")
    assert "not in the new checkpoint: no,maybe,yes. Give" in caplog.text


@pytest.fixture
def finetuned(saved, tmp_path):
    """Makes the checkpoint of a run with a table, one update old."""

    def make(outputs, **options):
        prefix, model = saved(
            "classifier",
            with_optimizer=True,
            make=lambda e: classification.AlbertClassifier(e, outputs),
        )
        folder = pathlib.Path(prefix).parent
        vocabulary = vocabulary_of(tmp_path, 400)
        run_folder.copy_vocabulary(vocabulary, str(folder))
        table = {"task_name": data.NAME, "max_seq_length": 16}
        table |= {"text_columns": "text", "label_column": "label"}
        table |= {"vocab_file": vocabulary.vocab_file, **options}
        facts = table.pop("facts", {})
        content = {"program": "run_x", "options": table, "facts": facts}
        (folder / "run_options.json").write_text(json.dumps(content))
        return prefix, passes.values(model)

    return make


def without_vocabulary(run):
    for path in run_folder.vocabulary_copy_paths(str(pathlib.Path(run).parent)):
        pathlib.Path(path).unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["tf1", "bfloat16"])
def test_names_of_the_classes_of_a_run_are_said(
    finetuned, tmp_path, caplog, name
):
    """No vocabulary is needed for that."""
    run, values = finetuned(3, labels="no,maybe,yes")
    without_vocabulary(run)
    there = convert(run, tmp_path / "there" / "x", name)
    assert "checkpoint: no,maybe,yes. Give them to" in caplog.text
    for name in ("output_weights", "output_bias"):
        np.testing.assert_allclose(contents(there)[name], values[name], 1e-2)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"task_name": "QNLI"}, "checkpoint: entailment,not_entailment. Give"),
        (
            {"task_name": "tagging", "facts": {"labels": ["O", "B-x"]}},
            "checkpoint: O,B-x. Give",
        ),
        ({"task_name": "own", "task_module": "own_module"}, None),
    ],
)
def test_only_hugging_face_folders_need_the_task(
    finetuned, tmp_path, caplog, options, names
):
    """It may have a module that is not there, or no vocabulary."""
    run, _ = finetuned(2, **options)
    if names:
        without_vocabulary(run)
    message = "has no vocabulary" if names else "`task_module=own_module`. A mo"
    with refused(message):
        convert(run, tmp_path / "hf", "huggingface", vocabulary=NONE)
    there = convert(run, tmp_path / "there" / "x", "tf2")
    np.testing.assert_equal(contents(there), contents(run))
    assert (names or "") in caplog.text
    assert ("names of the classes" in caplog.text) == bool(names)


def test_names_of_an_earlier_run_of_a_task_of_the_user(
    finetuned, tmp_path, caplog, monkeypatch
):
    """It has no facts; its module says what the labels are."""
    run, _ = finetuned(2, task_name="lights", task_module="lights")
    (tmp_path / "lights.py").write_text(
        "from albert_tf.tasks.glue import specs\n"
        "specs.TASKS['lights'] = specs.TaskSpec(('on', 'off'), {})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(specs, "TASKS", dict(specs.TASKS))
    convert(run, tmp_path / "there" / "x", "tf2", task_module="lights")
    assert "checkpoint: on,off. Give" in caplog.text


@pytest.mark.parametrize("name", [*FORMATS, "bfloat16", "int8"])
def test_a_regression_gives_its_numbers_in_all_formats(
    finetuned, tmp_path, caplog, name
):
    """Mean and deviation are among the options of the run only."""
    scale = {"label_mean": 2005.0, "label_deviation": 11.5}
    run, values = finetuned(1, regression=True, **scale)
    if name != "huggingface":
        without_vocabulary(run)
    found = contents(convert(run, tmp_path / "there" / "x", name))
    weights = values["output_weights"] * np.float32(11.5)
    rounded = {"bfloat16": 2**-8, "int8": 0.5}.get(name, 0)
    np.testing.assert_allclose(found["output_weights"], weights, rounded)
    bias = values["output_bias"] * np.float32(11.5) + np.float32(2005)
    np.testing.assert_array_equal(found["output_bias"], bias)
    # The moments were those of another head.
    assert not [n for n in found if "adam_" in n]
    assert ("global_step" in found) == (name in ("tf1", "tf2"))
    assert "units of 11.5 from 2005" in caplog.text


def test_moments_of_relevance_travel(finetuned, tmp_path):
    """It has no mean and no deviation."""
    run, _ = finetuned(1, query_column="query")
    there = convert(run, tmp_path / "there" / "x", "tf2")
    np.testing.assert_equal(contents(there), contents(run))


@pytest.mark.parametrize("target", ["tf1", "tf2"])
@pytest.mark.parametrize(
    ("name", "without"),
    [("pretraining", ()), ("masked words", "pooler"), ("encoder", "/adam_")],
)
def test_moments_and_step_travel(saved, tmp_path, target, name, without):
    """Also without a pooler; the step may be alone."""
    prefix, model = saved(name, with_optimizer=True)
    if without:
        kept = {n: v for n, v in contents(prefix).items() if without not in n}
        prefix = tf1_checkpoints.write(tmp_path / "source" / "x", kept)
    there = convert(prefix, tmp_path / "there" / "x", target)
    back = convert(there, tmp_path / "back" / "x", "tf2")
    np.testing.assert_equal(contents(prefix), contents(there))
    np.testing.assert_equal(contents(prefix), contents(back))
    assert contents(back)["global_step"] == 1
    if without:
        return
    # What the trainer resumes from.
    optimizer = optimization.Lamb(0.1)
    optimizer.build(model.trainable_variables)
    status = tf.train.Checkpoint(model=model, optimizer=optimizer).read(
        str(back)
    )
    status.assert_existing_objects_matched()
    assert int(optimizer.iterations) == 1
    np.testing.assert_allclose(optimizer.adam_m[3], 0.05)


def test_tf1_checkpoint_has_the_names_of_the_original(tmp_path):
    there = convert(LAMB / "model.ckpt-0", tmp_path / "model.ckpt-best", "tf1")
    original = tf1_checkpoints.read(LAMB / "model.ckpt-0")
    ours = tf1_checkpoints.read(there)
    np.testing.assert_equal(ours, original)
    for name, value in original.items():
        assert np.asarray(ours[name]).dtype == np.asarray(value).dtype
    written, config = (
        AlbertConfig.from_json_file(str(folder / "albert_config.json"))
        for folder in (tmp_path, LAMB)
    )
    assert written == config


@pytest.mark.parametrize(
    ("changes", "readers"),
    [
        ({"share": "none"}, ["tf1", "huggingface"]),
        ({"share": "ffn"}, []),
        ({"share": "attention"}, []),
        ({"pooling": "pair"}, []),
        *(({"position_bias": x}, []) for x in ("alibi", "relative", "buckets")),
        ({"layer_norm_eps": 1e-5}, ["huggingface"]),
        ({"hidden_act": "gelu_erf"}, ["huggingface"]),
        ({"map_equal_sizes": True, "embedding_size": 16}, ["huggingface"]),
        ({"project_words_first": True}, []),
        # In the original, layer 15 has the parameters of 14.
        ({"num_hidden_layers": 22, "num_hidden_groups": 22}, ["huggingface"]),
        ({"num_hidden_layers": 22, "share": "none"}, ["huggingface"]),
        (
            {
                "num_hidden_layers": 22,
                "num_hidden_groups": 22,
                "float_group_index": True,
            },
            ["tf1"],
        ),
    ],
)
def test_own_parts_travel_and_others_do_not_read_them(
    saved, small_config, tmp_path, changes, readers
):
    changes = {"num_hidden_groups": 1, "inner_group_num": 1, **changes}
    config = dataclasses.replace(small_config, **changes)
    prefix, _ = saved("classifier", config)
    there = convert(prefix, tmp_path / "there" / "x", "tf2")
    np.testing.assert_equal(contents(prefix), contents(there))
    assert checkpoint_reader.read(str(there)).config == config
    for name in ("tf1", "huggingface"):
        target = tmp_path / name / "x"
        if name not in readers:
            message = "has no counterpart|cannot be written|`format=tf2` keeps"
            with refused(message):
                convert(prefix, target, name)
            assert not list(target.parent.glob("*"))
            continue
        there = convert(prefix, target, name)
        np.testing.assert_equal(contents(prefix), contents(there))
        found = checkpoint_reader.read(str(there)).config
        assert found.layer_groups == config.layer_groups
        assert found.layer_norm_eps == config.layer_norm_eps
        if name == "tf1":  # The original knows neither of the two.
            its = {"share": "all", "float_group_index": True}
            its = dataclasses.replace(found, **its)
            assert its.layer_groups == config.layer_groups


# What is refused.


@pytest.fixture
def copy(tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in LAMB.glob("*ckpt-0*"):
        shutil.copy(path, folder)
    shutil.copy(LAMB / "albert_config.json", folder)
    return folder


BIAS = "bert/pooler/dense/bias"


@pytest.mark.parametrize(
    ("change", "config", "message"),
    [
        ({BIAS: None}, {}, f"{BIAS}: model .48., checkpoint nothing"),
        (
            {"my_head/kernel": np.zeros([3], "f4")},
            {},
            "belong to no model.*my_head",
        ),
        (
            {f"{BIAS}/adam_m": np.zeros([47], "f4")},
            {},
            f"do not fit its weights: {BIAS}/adam_m and 0 more",
        ),
        (
            {},
            {"num_attention_heads": 8},
            "num_attention_heads: model 8, checkpoint 4",
        ),
        ({}, None, "no albert_config.json beside it"),
    ],
)
def test_what_does_not_fit_is_refused(copy, tmp_path, change, config, message):
    """What else does not fit: test_restoring.py."""
    values = tf1_checkpoints.read(copy / "model.ckpt-0") | change
    kept = {name: v for name, v in values.items() if v is not None}
    tf1_checkpoints.write(copy / "model.ckpt-0", kept)
    options, described = {}, copy / "albert_config.json"
    if config:
        path = tmp_path / "wrong.json"
        path.write_text(json.dumps(json.loads(described.read_text()) | config))
        options["albert_config_file"] = str(path)
    elif config is None:
        described.unlink()
    for name in ("tf2", "huggingface"):
        target = tmp_path / "to" / "x"
        with refused(message):
            convert(copy / "model.ckpt-0", target, name, **options)
    assert not list(tmp_path.glob("to/*"))


def test_a_small_folder_is_complete(saved, tmp_path):
    prefix, _ = saved("classifier")
    vocabulary = vocabulary_of(tmp_path, 400)
    target = tmp_path / "small"
    convert(prefix, target, "bfloat16", vocabulary=vocabulary)
    bfloat16 = tf.bfloat16.as_numpy_dtype
    expected = {
        name: v if name == "output_bias" else v.astype(bfloat16).astype("f4")
        for name, v in contents(prefix).items()
    }
    assert run_folder.find_vocabularies(str(target)).keys() == {"vocab_file"}
    with refused("`to=.* exists"):
        convert(prefix, target, "bfloat16", vocabulary=vocabulary)
    back = convert(target, tmp_path / "back" / "model.ckpt-best", "tf2")
    np.testing.assert_equal(contents(back), expected)


def test_int8_takes_a_byte_a_weight_and_is_the_same_again(saved, tmp_path):
    prefix, model = saved("pretraining")
    small, again = tmp_path / "small", tmp_path / "again"
    convert(prefix, small, "int8")
    convert(convert(small, tmp_path / "back" / "x", "tf2"), again, "int8")
    file = small / "model.safetensors"
    assert file.read_bytes() == (again / file.name).read_bytes()
    values = passes.values(model).values()
    weights = sum(v.size if v.ndim == 2 else 4 * v.size for v in values)
    scales = sum(4 * max(v.shape) for v in values if v.ndim == 2)
    assert file.stat().st_size < weights + scales + 200 * len(values)


def test_a_small_folder_keeps_no_vocabulary_of_the_model_before(
    saved, tmp_path, tiny_vocab
):
    prefix, _ = saved("encoder")
    pieces = tokenization.VocabularyOptions(tiny_vocab)
    words = vocabulary_of(tmp_path, 400)
    target = tmp_path / "small"
    for vocabulary, names in (
        (pieces, {"spm.model", "spm.normalization.json"}),
        (words, {"vocab.txt", "vocab.normalization.json"}),
        (NONE, set()),
    ):
        convert(
            prefix, target, "bfloat16", vocabulary=vocabulary, overwrite=True
        )
        found = {path.name for path in target.iterdir()}
        assert found == names | {"albert_config.json", "model.safetensors"}


def test_vocabularies_of_the_user_stay(saved, tmp_path):
    """No model is replaced in their folder."""
    prefix, _ = saved("encoder")
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "spm.model").write_text("mine")
    words = vocabulary_of(tmp_path, 400)
    there = tmp_path / "small"
    convert(prefix, there, "bfloat16", vocabulary=words, overwrite=True)
    assert (there / "spm.model").read_text() == "mine"


def test_vectors_are_pooled_as_is_said_else_by_their_mean(saved, tmp_path):
    there, _ = saved("encoder")
    words = vocabulary_of(tmp_path, 400)
    # The last folder says what the one before it does.
    for number, given, expected in (
        (1, None, "mean"),
        (2, "max", "max"),
        (3, None, "max"),
    ):
        there = convert(
            there,
            tmp_path / f"vectors_{number}",
            "sentence_transformers",
            vocabulary=words,
            text_pooling=given,
        )
        found = sentence_modules.read(str(there))
        assert (found.text_pooling, found.max_seq_length) == (expected, 64)


@pytest.mark.parametrize("name", [*FORMATS, "bfloat16"])
def test_pooling_of_vectors_is_said_where_it_has_no_place(
    saved, tmp_path, caplog, name
):
    prefix, _ = saved("encoder")
    for pooling in ("mean", "cls"):
        folder = convert(
            prefix,
            tmp_path / pooling,
            "sentence_transformers",
            vocabulary=vocabulary_of(tmp_path, 400),
            text_pooling=pooling,
        )
        assert "text_pooling=" not in caplog.text
        prompts = folder / "config_sentence_transformers.json"
        prompts.write_text('{"prompts": {"query": "query: "}}')
        convert(folder, tmp_path / name / pooling, name, vocabulary=NONE)
    assert "Give `text_pooling=cls` to albert_tf.export" in caplog.text
    assert 'Give `prompts={"query": "query: "}` to' in caplog.text
    (folder / "modules.json").write_text("[]")
    convert(folder, tmp_path / name / "other", name, vocabulary=NONE)
    assert "checkpoint is the encoder alone. " in caplog.text


def test_folder_of_another_model_is_refused(copy, saved, tmp_path):
    prefix, _ = saved("encoder")
    with refused("which describes another model"):
        convert(prefix, copy / "model.ckpt-1", "tf1")


def test_folder_with_another_vocabulary_is_refused(saved, tmp_path):
    prefix, _ = saved("encoder")
    first, other = (vocabulary_of(tmp_path, 400, word) for word in "wv")
    target = tmp_path / "both" / "model.ckpt-1"
    convert(prefix, target, "tf2", vocabulary=first)
    for_all = tmp_path / "both" / "model.ckpt-2"
    with refused("has another vocabulary"):
        convert(prefix, for_all, "tf2", vocabulary=other)
    assert not list(target.parent.glob("model.ckpt-2*"))
    convert(prefix, for_all, "tf1", vocabulary=first)


def test_full_disk_leaves_nothing(copy, tmp_path, monkeypatch):
    def fail(**_):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left")

    monkeypatch.setattr(tf.raw_ops, "SaveV2", fail)
    with pytest.raises(OSError, match="Cannot write `to=.*No space"):
        convert(copy / "model.ckpt-0", tmp_path / "to" / "x", "tf1")
    names = {path.name for path in (tmp_path / "to").iterdir()}
    assert names == {"albert_config.json"}


@pytest.mark.parametrize(
    ("format_", "largest"), [("tf1", 200_000), ("int8", 10_000)]
)
def test_after_a_full_disk_the_same_command_works(
    saved, tmp_path, tiny_vocab, format_, largest
):
    """The vocabulary does not fit, or the weights do not."""
    words = vocabulary_of(tmp_path, 400)
    if format_ == "tf1":
        words = tokenization.VocabularyOptions(tiny_vocab)
    given = saved("encoder")[0], tmp_path / "to" / "x", format_
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            convert(*given, vocabulary=words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    convert(*given, vocabulary=words)


@pytest.mark.parametrize("owner", ["run_options.json", "config.json"])
def test_folders_of_others_are_refused(copy, tmp_path, owner):
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / owner).write_text("{}")
    with refused(f"it holds {owner}"):
        convert(copy / "model.ckpt-0", tmp_path / "to" / "x", "tf2")
    for changes in ({}, {"overwrite": True}):
        for folder, name in ((tmp_path / "to", owner), (copy, "model.ckpt-0")):
            with refused(f"it holds {name}"):
                convert(LAMB / "model.ckpt-0", folder, "bfloat16", **changes)
    assert {p.name for p in (tmp_path / "to").glob("[!.]*")} == {owner}
    if owner == "config.json":
        with refused("exists"):
            convert(copy / "model.ckpt-0", tmp_path / "to", "huggingface")
    with refused("a folder of its own"):
        convert(copy / "model.ckpt-0", copy, "huggingface")


@pytest.fixture
def downloaded(tiny_vocab, small_config, tmp_path):
    """A model in a cache as Hugging Face's: snapshots are links to blobs."""
    folder = tmp_path / "whole"
    config = dataclasses.replace(small_config, vocab_size=400)
    weights = passes.values(AlbertModel(config))
    hugging_face_files.write(folder, config, weights)
    shutil.copy(tiny_vocab, folder / "spiece.model")
    normalization.write(str(folder / "spiece.model"), KEPT)
    cache = tmp_path / "hub" / "models--x--y"
    snapshot = cache / "snapshots" / "2f1c"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    for number, path in enumerate(folder.iterdir()):
        path.rename(cache / "blobs" / f"{number}")
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    return snapshot


def test_links_of_a_hugging_face_cache_are_followed(downloaded, tmp_path):
    for name in FORMATS:
        there = convert(
            downloaded, tmp_path / name / "x", name, vocabulary=NONE
        )
        np.testing.assert_equal(contents(there), contents(downloaded))
    for copy in ("tf2/spm.model", "huggingface/x/spiece.model"):
        content = (tmp_path / copy).read_bytes()
        assert content == (downloaded / "spiece.model").read_bytes()
    copied = str(tmp_path / "tf1" / "spm.model")
    assert normalization.read(copied, "sentencepiece") == KEPT


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "linked",
    [
        "config.json",
        "model.safetensors",
        "spiece.model",
        "spiece.normalization.json",
    ],
)
def test_links_to_files_elsewhere_are_refused(
    downloaded, tmp_path, name, linked
):
    path, target = downloaded / linked, tmp_path / "elsewhere"
    target.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(target)
    with refused(f"{linked} is a link to .*else"):
        convert(downloaded, tmp_path / "to" / "x", name, vocabulary=NONE)
    assert not list(tmp_path.glob("to/*"))


@pytest.mark.parametrize("name", FORMATS)
def test_a_vocabulary_is_parsed_before_anything_is_written(
    downloaded, tmp_path, name
):
    (downloaded / "spiece.model").unlink()
    (downloaded / "spiece.model").write_text("root:x:0:0")
    with refused(r"spiece\.model"):
        convert(downloaded, tmp_path / "to" / "x", name, vocabulary=NONE)
    assert not list(tmp_path.glob("to/*"))


def test_the_network_of_a_folder_of_vectors_is_the_encoder():
    def network(format_, *names):
        model = types.SimpleNamespace(encoder="encoder")
        source = types.SimpleNamespace(model=model, names={*names})
        settings = convert_checkpoint.ConvertOptions(
            from_="source", to="target", format=format_, onnx=True
        )
        return conversion._network(source, settings)

    assert network("sentence_transformers", "output_bias") == "encoder"
    assert network("huggingface", "output_bias").encoder == "encoder"
    assert network("huggingface", "bert/pooler/dense/bias") == "encoder"
    for name in ("sentence_transformers", "huggingface"):
        with refused("`onnx` is given for `from=source`, which has a linear"):
            network(name, "projection/kernel")
