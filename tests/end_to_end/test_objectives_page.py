"""The commands of docs/objectives.md, and what becomes of the encoders."""

import itertools
import re
import shutil

import numpy as np
import pytest

from tests import own_tasks, row_files
from tests.conftest import ROOT, tiny_config
from tests.data_prep import writing
from tests.end_to_end.pages import call, commands

pytestmark = pytest.mark.slow
TINY = (
    "--train_batch_size=8 --num_warmup_steps=0 --learning_rate=1e-3 "
    "--num_train_steps=3 --max_eval_steps=1"
)
CONFIGS = {
    "config": {},
    "plm": {"position_bias": "relative"},
    "spans": {"position_bias": "buckets", "vocab_size": 500},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_vocab):
    folder = tmp_path_factory.mktemp("objectives")
    for name in ("vocab", "v"):
        shutil.copy(tiny_vocab, folder / f"{name}.model")
    writing.write_corpus(folder / "corpus.txt", 1, 24)
    (folder / "phrases.txt").write_text("at home\n")
    (folder / "entities.txt").write_text("the fire\n")
    (folder / "markers.txt").write_text("it\nwe\n")
    turns = zip("QRQR" * 12, itertools.cycle(writing.WORDS[:7]), strict=False)
    lines = [f"{who}\t{word} old books\n" for who, word in turns]
    ends = ["\n" if n % 4 == 3 else "" for n in range(len(lines))]
    (folder / "dialogues.txt").write_text(
        "".join(map("".join, zip(lines, ends, strict=True)))
    )
    for name, changes in CONFIGS.items():
        config = tiny_config(max_position_embeddings=512, **changes)
        (folder / f"{name}.json").write_text(config.to_json())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in commands("objectives.md"):
            run(command)
    return folder


def run(command):
    """Run a command of the page with a tiny model, on records by length."""
    given = dict(re.findall(r"--(\w+)=(\S+)", command))
    records = f"{given.get('max_seq_length', 512)}.tfrecord"
    command = re.sub(r"--vocab_file=\S+", "--spm_model_file=v.model", command)
    command = command.replace("=configs/", f"={ROOT}/configs/")
    if "train_sentencepiece" in command:
        command += " --output_prefix=of_turns --vocab_size=33"
    elif "create_pretraining_data" in command:
        command += f" --output_file={records} --overwrite"
    else:
        shutil.rmtree(given["output_dir"], ignore_errors=True)
        config = given.get("objective", "config")
        command += f" {TINY} --albert_config_file={config}.json"
        command += f" --input_file={records}"
        if "mask_levels" in given:
            command += " --mask_levels=basic:1,phrase:1,entity"
    call(command)


def test_every_run_is_there(place):
    names = {path.name for path in (place / "runs").iterdir()}
    expected = "sop roberta ernie talk plm spans"
    assert names == set(expected.split())
    for name in names:
        assert (place / "runs" / name / "model.ckpt-3.index").is_file()


@pytest.mark.parametrize("name", ["plm", "spans"])
def test_its_encoder_is_finetuned_and_exported(place, monkeypatch, name):
    monkeypatch.chdir(place)
    own_tasks.write_rte(place / "glue/RTE", train=16, dev=8)
    call(
        "python -m albert_tf.run_classifier --task_name=rte --data_dir=glue "
        f"--do_train --do_eval --max_seq_length=64 --output_dir=rte/{name} "
        f"--spm_model_file=vocab.model --albert_config_file={name}.json "
        f"--init_checkpoint=runs/{name} --train_step=2 --train_batch_size=8"
    )
    (place / "pairs.jsonl").write_text('{"text": "a fire", "text_pair": "b"}\n')
    found = []
    for source, folder in (("run_dir", "rte"), ("saved_model", "saved")):
        if folder == "saved":
            call(
                f"python -m albert_tf.export --run_dir=rte/{name} "
                f"--export_dir=saved/{name}"
            )
        call(
            f"python -m albert_tf.predict pairs.jsonl --{source}={folder}/"
            f"{name} --output_file={folder}-{name}.jsonl"
        )
        (row,) = row_files.read(place / f"{folder}-{name}.jsonl")
        found.append(row["probabilities"])
    of_run, saved = found
    np.testing.assert_allclose([*of_run.values()], saved, atol=1e-6)
