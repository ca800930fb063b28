"""Mistakes of users: one clear message, and nothing is overwritten."""

import dataclasses
import errno
import json
import os
import pathlib
import resource
import struct
import types

import pytest
from sentencepiece import sentencepiece_model_pb2

from albert_tf import run_classifier, run_pretraining
from albert_tf.common import errors
from albert_tf.common.options import to_dict
from albert_tf.data import masking
from albert_tf.finetuning import finetuning_options
from albert_tf.model import model_options, modeling
from albert_tf.text import tokenization
from albert_tf.training import (
    memory_check,
    pretraining_options,
    training_options,
)
from data_prep import create_pretraining_data, train_sentencepiece
from data_prep.writer import corpus, segment_pairs
from tests.conftest import changed, tiny_config
from tests.end_to_end import processes

LENGTH = 32
PREDICTIONS = 5


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, story_text, tiny_vocab):
    """Text, records and a config that fit together."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "text.txt").write_text(story_text[1])
    records = create_pretraining_data.CreatePretrainingDataOptions(
        text=corpus.CorpusOptions(str(folder / "text.txt")),
        output_file=str(folder / "train.tfrecord"),
        vocabulary=tokenization.VocabularyOptions(tiny_vocab),
        dupe_factor=1,
        pairs=segment_pairs.PairOptions(max_seq_length=LENGTH),
        masks=masking.MaskingOptions(max_predictions_per_seq=PREDICTIONS),
    )
    create_pretraining_data.run(records)
    config = tiny_config()
    (folder / "config.json").write_text(config.to_json())
    (folder / "glue" / "RTE").mkdir(parents=True)
    (folder / "glue" / "RTE" / "dev.tsv").write_text(
        "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tentailment\n"
    )
    return types.SimpleNamespace(folder=folder, records=records)


@pytest.fixture
def pretraining(prepared, tiny_vocab, tmp_path):
    """Options of run_pretraining that work, with a new folder."""
    return run_pretraining.PretrainingOptions(
        albert_config_file=str(prepared.folder / "config.json"),
        input_file=str(prepared.folder / "train.tfrecord"),
        output_dir=str(tmp_path / "run"),
        vocabulary=tokenization.VocabularyOptions(tiny_vocab),
        max_seq_length=LENGTH,
        masks=masking.MaskingOptions(max_predictions_per_seq=PREDICTIONS),
        train_batch_size=4,
        recipe=pretraining_options.RecipeOptions(
            num_train_steps=2,
            num_warmup_steps=1,
            optimizer=model_options.OptimizerOptions(learning_rate=1e-3),
        ),
        trainer=training_options.TrainerOptions(iterations_per_loop=1),
    )


@pytest.fixture
def classifier(prepared, tiny_vocab, tmp_path):
    """Options of run_classifier that work, with a new folder."""
    return run_classifier.ClassifierOptions(
        data_dir=str(prepared.folder / "glue"),
        task_name="rte",
        finetuning=finetuning_options.FinetuningOptions(
            vocabulary=tokenization.VocabularyOptions(tiny_vocab),
            albert_config_file=str(prepared.folder / "config.json"),
            output_dir=str(tmp_path / "run"),
            max_seq_length=LENGTH,
            do_eval=True,
        ),
    )


def snapshot(folder):
    """Every file below a folder, with its bytes."""
    return {
        str(path): path.read_bytes()
        for path in pathlib.Path(folder).rglob("*")
        if path.is_file()
    }


def refuse(run, settings, message, folder):
    """Expect one message, and a folder that stays as it was."""
    before = snapshot(folder)
    with pytest.raises(errors.UserError, match=message):
        run(settings)
    assert snapshot(folder) == before


def as_flags(settings, **changes):
    values = {**to_dict(settings), **changes}
    return [f"--{k}={v}" for k, v in values.items() if v is not None]


# Input that is missing or empty.


@pytest.mark.parametrize(
    "pattern, message",
    [
        ("", "`input_file` is empty"),
        (" , ", "`input_file` is empty"),
        ("nowhere/*.tfrecord", "`input_file=nowhere.*` matches no file"),
    ],
)
def test_pretraining_input_that_is_not_there(
    pretraining, tmp_path, pattern, message
):
    settings = changed(pretraining, input_file=pattern)
    refuse(run_pretraining.run, settings, message, tmp_path)
    settings = changed(pretraining, eval_input_file=pattern)
    message = message.replace("`input", "`eval_input")
    refuse(run_pretraining.run, settings, message, tmp_path)


def test_empty_record_file(pretraining, tmp_path):
    path = tmp_path / "empty.tfrecord"
    path.write_bytes(b"")
    settings = changed(pretraining, input_file=str(path))
    refuse(run_pretraining.run, settings, "empty.tfrecord", tmp_path)


def test_record_file_of_other_bytes(pretraining, tmp_path):
    path = tmp_path / "text.tfrecord"
    path.write_text("This is a text and not a record file at all.\n" * 9)
    settings = changed(pretraining, input_file=str(path))
    refuse(run_pretraining.run, settings, "text.tfrecord", tmp_path)


def test_record_file_that_is_cut_short(pretraining, tmp_path):
    path = tmp_path / "train.tfrecord"
    whole = pathlib.Path(pretraining.input_file)
    path.write_bytes(whole.read_bytes()[:-7])
    manifest = next(whole.parent.glob("*.manifest.json"))
    (tmp_path / manifest.name).write_bytes(manifest.read_bytes())
    settings = changed(pretraining, input_file=str(path))
    refuse(run_pretraining.run, settings, "cut short", tmp_path)


def spoil_record(path, number):
    """Change a byte in the middle of a record; the length stays."""
    content = bytearray(path.read_bytes())
    start = 0
    for _ in range(number):
        (size,) = struct.unpack_from("<Q", content, start)
        start, middle = start + size + 16, start + size // 2
    content[middle] ^= 0xFF
    path.write_bytes(content)


def test_record_that_is_damaged(pretraining, tmp_path):
    whole = pathlib.Path(pretraining.input_file)
    for path in whole.parent.glob(f"{whole.name}*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    spoil_record(tmp_path / whole.name, 3)
    settings = changed(
        pretraining,
        input_file=str(tmp_path / whole.name),
        eval_input_file=pretraining.input_file,
        output_dir=str(tmp_path / "run"),
    )
    message = f"{tmp_path / whole.name} is damaged: record 3 cannot be read"
    with pytest.raises(errors.UserError, match=message):
        run_pretraining.run(settings)


@pytest.mark.parametrize("content", ["", "\n\n\n", " \n"])
def test_corpus_without_text(prepared, tmp_path, content):
    path = tmp_path / "text.txt"
    path.write_text(content)
    settings = changed(
        prepared.records,
        input_file=str(path),
        output_file=str(tmp_path / "out.tfrecord"),
    )
    run = create_pretraining_data.run
    refuse(run, settings, "--input_file", tmp_path)


def test_vocabulary_from_no_text(tmp_path):
    (tmp_path / "text.txt").write_text("")
    settings = train_sentencepiece.Options(
        input_file=str(tmp_path / "text.txt"),
        output_prefix=str(tmp_path / "words"),
        vocab_size=400,
    )
    refuse(train_sentencepiece.run, settings, "--input_file", tmp_path)


def test_task_without_its_file(classifier, tmp_path):
    settings = changed(classifier, data_dir=str(tmp_path))
    refuse(run_classifier.run, settings, "`data_dir=.*` has no RTE", tmp_path)


def test_missing_checkpoint(classifier, pretraining, tmp_path):
    nowhere = str(tmp_path / "model.ckpt-9")
    settings = changed(classifier, init_checkpoint=nowhere)
    refuse(run_classifier.run, settings, "`init_checkpoint=", tmp_path)


# Vocabulary, architecture and length.


def without_piece(tiny_vocab, piece, folder):
    model = sentencepiece_model_pb2.ModelProto.FromString(
        pathlib.Path(tiny_vocab).read_bytes()
    )
    (entry,) = (p for p in model.pieces if p.piece == piece)
    entry.piece = "[OTHER]"
    path = folder / "lacking.model"
    path.write_bytes(model.SerializeToString())
    return str(path)


@pytest.mark.parametrize("piece", ["[CLS]", "[SEP]", "[MASK]", "<pad>"])
def test_vocabulary_that_lacks_a_special_piece(
    classifier, prepared, tiny_vocab, tmp_path, piece
):
    path = without_piece(tiny_vocab, piece, tmp_path)
    message = rf"lacking\.model.*{piece.strip('[]')}"
    records = changed(
        prepared.records,
        spm_model_file=path,
        output_file=str(tmp_path / "out.tfrecord"),
    )
    refuse(create_pretraining_data.run, records, message, tmp_path)
    settings = changed(classifier, spm_model_file=path)
    refuse(run_classifier.run, settings, message, tmp_path)


def test_vocabulary_file_that_is_none(classifier, prepared, tmp_path):
    settings = changed(
        classifier,
        spm_model_file=str(prepared.folder / "text.txt"),
    )
    refuse(run_classifier.run, settings, "text.txt", tmp_path)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"hiden_size": 16}, "Unknown key 'hiden_size'.*'hidden_size'"),
        ({"hidden_size": 17}, "hidden_size=17 is not a multiple"),
        ({"num_hidden_groups": 2}, "num_hidden_groups=2 is more than"),
        ({"hidden_act": "reru"}, "hidden_act='reru' is not known"),
        ({"num_hidden_layers": 0}, "num_hidden_layers=0"),
        ({"hidden_dropout_prob": 1.5}, "hidden_dropout_prob=1.5"),
    ],
)
def test_config_that_makes_no_sense(pretraining, tmp_path, changes, message):
    values = json.loads(
        pathlib.Path(pretraining.albert_config_file).read_text()
    )
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**values, **changes}))
    settings = changed(pretraining, albert_config_file=str(path))
    refuse(run_pretraining.run, settings, message, tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "vocab_size: 400"])
def test_config_that_is_no_json_object(pretraining, tmp_path, content):
    path = tmp_path / "config.json"
    path.write_text(content)
    settings = changed(pretraining, albert_config_file=str(path))
    message = "`albert_config_file="
    refuse(run_pretraining.run, settings, message, tmp_path)


def test_length_above_the_position_table(pretraining, classifier, tmp_path):
    message = "`max_seq_length=65` is longer than the 64 positions"
    settings = changed(pretraining, max_seq_length=65)
    refuse(run_pretraining.run, settings, message, tmp_path)
    settings = changed(classifier, max_seq_length=65)
    refuse(run_classifier.run, settings, message, tmp_path)


@pytest.mark.parametrize("manifest", [True, False])
@pytest.mark.parametrize(
    "changes",
    [
        {"max_seq_length": LENGTH - 1},
        {"max_seq_length": LENGTH + 1},
        {"max_predictions_per_seq": PREDICTIONS + 1},
    ],
)
def test_records_of_another_length(pretraining, tmp_path, changes, manifest):
    settings = changed(pretraining, **changes)
    if not manifest:  # As the original's records: only the numbers tell.
        path = tmp_path / "train.tfrecord"
        path.write_bytes(pathlib.Path(settings.input_file).read_bytes())
        settings = changed(settings, input_file=str(path))
    ((name, value),) = changes.items()
    message = f"`{name}={value}` is given, but the records"
    refuse(run_pretraining.run, settings, message, tmp_path)


def test_records_of_another_vocabulary(pretraining, tiny_vocab, tmp_path):
    other = without_piece(tiny_vocab, "▁", tmp_path)
    settings = changed(pretraining, spm_model_file=other)
    message = "written with another vocabulary"
    refuse(run_pretraining.run, settings, message, tmp_path)


def test_records_of_another_vocabulary_size(pretraining, tmp_path):
    config = modeling.AlbertConfig.from_json_file(
        pretraining.albert_config_file
    )
    path = tmp_path / "config.json"
    path.write_text(dataclasses.replace(config, vocab_size=401).to_json())
    settings = changed(pretraining, albert_config_file=str(path))
    message = "vocabulary of 400 pieces; the model has 401"
    refuse(run_pretraining.run, settings, message, tmp_path)


def test_vocabulary_of_another_size_than_the_model(classifier, tmp_path):
    settings = classifier.finetuning
    config = modeling.AlbertConfig.from_json_file(settings.albert_config_file)
    path = tmp_path / "config.json"
    path.write_text(dataclasses.replace(config, vocab_size=401).to_json())
    settings = changed(settings, albert_config_file=str(path))
    refuse(
        run_classifier.run,
        changed(classifier, finetuning=settings),
        "has 400 pieces, but .* has vocab_size 401",
        tmp_path,
    )


# The machine.


def test_batches_that_no_memory_holds(
    pretraining, classifier, tmp_path, monkeypatch
):
    monkeypatch.setattr(memory_check, "free_host_memory", lambda: 2**31)
    settings = changed(pretraining, train_batch_size=2**20)
    message = (
        "`train_batch_size=1048576`: a training step needs about .* "
        "`gradient_accumulation_steps` or `recompute`"
    )
    refuse(run_pretraining.run, settings, message, tmp_path)
    settings = changed(pretraining, do_eval=True, eval_batch_size=2**20)
    message = "`eval_batch_size=1048576`: a batch needs .* 2.0 GiB are free"
    refuse(run_pretraining.run, settings, message, tmp_path)
    settings = changed(classifier, eval_batch_size=2**20)
    refuse(run_classifier.run, settings, message, tmp_path)


# The output folder.


@pytest.fixture
def finished(pretraining):
    """A run that was made with the options of `pretraining`."""
    run_pretraining.run(pretraining)
    return pretraining


def test_folder_of_another_run(finished, classifier, tmp_path):
    other = changed(finished, train_batch_size=8)
    message = "belongs to another run:\n  --train_batch_size was 4, is now 8"
    refuse(run_pretraining.run, other, message, tmp_path)
    message = "made by run_pretraining, not run_classifier"
    refuse(run_classifier.run, classifier, message, tmp_path)
    config = modeling.AlbertConfig.from_json_file(finished.albert_config_file)
    path = tmp_path / "config.json"
    path.write_text(dataclasses.replace(config, hidden_size=32).to_json())
    other = changed(finished, albert_config_file=str(path))
    message = r"hidden_size was 16, is now 32 \(in albert_config.json\)"
    refuse(run_pretraining.run, other, message, tmp_path)


def test_folder_of_unknown_checkpoints(pretraining, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"')
    message = "holds checkpoints but no run_options.json"
    refuse(run_pretraining.run, pretraining, message, tmp_path)


def test_output_folder_that_is_a_file(pretraining, tmp_path):
    (tmp_path / "run").write_text("in the way")
    message = "Cannot create the folder|is not a folder"
    refuse(run_pretraining.run, pretraining, message, tmp_path)


def test_records_are_not_replaced_by_others(prepared):
    other = changed(prepared.records, random_seed=1)
    message = "--output_file=.*--random_seed was"
    run = create_pretraining_data.run
    refuse(run, other, message, prepared.folder)


def test_full_disk_leaves_the_records_as_they_were(
    prepared, tmp_path, monkeypatch
):
    settings = changed(
        prepared.records, output_file=str(tmp_path / "train.tfrecord")
    )
    create_pretraining_data.run(settings)
    before = snapshot(tmp_path)

    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    other = changed(settings, random_seed=1, overwrite=True)
    with pytest.raises((errors.UserError, OSError), match="No space left"):
        create_pretraining_data.run(other)
    after = snapshot(tmp_path)
    # A manifest that no longer fits may go; records are whole or not there.
    assert after.items() <= before.items()
    assert str(tmp_path / "train.tfrecord") in after


# Exit status and output of the process.


def check_process(done, status, *words):
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    lines = [x for x in done.stderr.splitlines() if x.startswith("error: ")]
    assert len(lines) == 1
    assert all(word in done.stderr for word in words)


def test_status_and_message_of_a_wrong_pattern(
    run_module, pretraining, tmp_path
):
    flags = as_flags(pretraining, input_file="nowhere/*.tfrecord")
    done = run_module("albert_tf.run_pretraining", *flags)
    check_process(done, 2, "--input_file=nowhere/*.tfrecord")
    assert not (tmp_path / "run").exists()


def test_status_and_message_of_a_wrong_length(run_module, classifier):
    flags = as_flags(classifier, max_seq_length=65)
    done = run_module("albert_tf.run_classifier", *flags)
    check_process(done, 2, "--max_seq_length=65", "64 positions")


def test_status_and_message_of_a_full_disk(run_module, prepared, tmp_path):
    (tmp_path / "words.model").write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limits[1]))
    try:  # Writing beyond the limit fails.
        done = run_module(
            "data_prep.train_sentencepiece",
            f"--input_file={prepared.folder / 'text.txt'}",
            f"--output_prefix={tmp_path / 'words'}",
            "--vocab_size=200",
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    check_process(done, 1, "File too large", "words.model")
    assert (tmp_path / "words.model").read_text() == "old"


# The output option of each script, and its first file.
TEXT_SCRIPTS = {
    "create_pretraining_data": ("output_file", "x.work"),
    "split_sentences": ("output_file", "x"),
    "train_sentencepiece": ("output_prefix", "x.vocab"),
}


@pytest.fixture
def text_script(prepared, tiny_vocab):
    """Runs a script that turns text into something."""

    def run(limit, name, **given):
        if name == "create_pretraining_data":
            given["spm_model_file"] = tiny_vocab
        if name == "train_sentencepiece":
            given["vocab_size"] = 200
        given = {"input_file": prepared.folder / "text.txt", **given}
        return processes.run_limited(limit, f"data_prep.{name}", **given)

    return run


@pytest.mark.parametrize("name", TEXT_SCRIPTS)
def test_disk_that_is_full_from_the_beginning(text_script, tmp_path, name):
    option, file = TEXT_SCRIPTS[name]
    output = {option: tmp_path / "new" / "x"}
    done = text_script(processes.allow_no_byte, name, **output)
    check_process(done, 1, "File too large", f"{tmp_path}/new/{file}")
    assert not list((tmp_path / "new").glob("*x"))


@pytest.mark.parametrize("name", TEXT_SCRIPTS)
def test_folder_that_may_not_be_written(text_script, tmp_path, name):
    option, file = TEXT_SCRIPTS[name]
    folder = tmp_path / "closed"
    folder.mkdir(0o555)
    limit = processes.obey_permissions
    done = text_script(limit, name, **{option: folder / "x"})
    status = 2 if name == "create_pretraining_data" else 1
    check_process(done, status, "Permission denied", f"{folder}/{file}")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", TEXT_SCRIPTS)
def test_input_that_may_not_be_read(text_script, tmp_path, name):
    path = tmp_path / "text.txt"
    path.write_text("it rains\n")
    path.chmod(0)
    output = {TEXT_SCRIPTS[name][0]: tmp_path / "new" / "x"}
    limit = processes.obey_permissions
    done = text_script(limit, name, input_file=path, **output)
    check_process(done, 2, f"--input_file={path} may not be read")
    assert not (tmp_path / "new").exists()


# Masks in the records, or in training.


@pytest.fixture
def unmasked(prepared, tmp_path):
    """Records that hold no masks."""
    output = str(tmp_path / "unmasked.tfrecord")
    create_pretraining_data.run(
        changed(prepared.records, output_file=output, masking_time="training")
    )
    return output


def test_records_without_masks_need_a_budget(pretraining, unmasked, tmp_path):
    settings = changed(pretraining, input_file=unmasked)
    refuse(run_pretraining.run, settings, "holds no masks", tmp_path)
    settings = changed(pretraining, masked_lm_budget=5)
    refuse(run_pretraining.run, settings, "hold masks already", tmp_path)


def test_training_masks_records_that_hold_none(pretraining, unmasked):
    run_pretraining.run(
        changed(
            pretraining, input_file=unmasked, masked_lm_budget=5, do_eval=True
        )
    )
    results = pathlib.Path(pretraining.output_dir, "eval_results.txt")
    assert "masked_lm_loss = 5." in results.read_text()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masked_lm_budget": -1}, "`masked_lm_budget=-1` is below 0"),
        ({"ngram": 2}, "--ngram=2 says how training masks"),
        (
            {"masked_lm_budget": 5, "spm_model_file": None},
            "`spm_model_file` and `vocab_file` are both missing",
        ),
        (
            {"masked_lm_budget": 5, "do_permutation": True},
            "--do_permutation is not done in training",
        ),
    ],
)
def test_options_of_masking_in_training(pretraining, changes, message):
    with pytest.raises(errors.UserError, match=message):
        changed(pretraining, **changes)
