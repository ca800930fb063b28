"""The README's quickstart runs, on less data."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT, tiny_config

# Text of the README, and what the test runs instead to be quick.
SHORTER = {
    "--vocab_size=8000": "--vocab_size=400",
    "--albert_config_file=albert_hour": "--albert_config_file=tiny.json",
    "--output_dir=runs/hour": "--output_dir=runs/hour "
    "--albert_config_file=tiny.json --num_train_steps=2 "
    "--num_warmup_steps=1 --max_eval_steps=1",
    "--output_dir=runs/rte": "--output_dir=runs/rte "
    "--train_step=2 --warmup_step=0",
}


def quickstart():
    readme = (ROOT / "README.md").read_text()
    section = readme.split("\n## Quickstart\n")[1].split("\n## ")[0]
    (commands,) = re.findall(r"```\n(.*?)```", section, re.S)
    for text, shorter in SHORTER.items():
        assert text in commands
        commands = commands.replace(text, shorter)
    return "set -e\n" + commands


@pytest.mark.slow
def test_quickstart(tmp_path, story_text):
    for name, text in zip(("train", "dev"), story_text, strict=True):
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "tiny.json").write_text(tiny_config().to_json())
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "glue_data" / "RTE").mkdir(parents=True)
    rows = ["index\tsentence1\tsentence2\tlabel"] + [
        f"{i}\tThe lamp {i} is red.\tIt is red.\t"
        f"{'entailment' if i % 2 else 'not_entailment'}"
        for i in range(8)
    ]
    for name in ("train", "dev"):
        path = tmp_path / "glue_data" / "RTE" / f"{name}.tsv"
        path.write_text("\n".join(rows) + "\n")
    folders = [os.path.dirname(sys.executable), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-c", quickstart()],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": os.pathsep.join(folders),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "served" / "rte" / "1" / "saved_model.pb").is_file()
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["label"] in ("entailment", "not_entailment")


def test_readme_has_at_most_200_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200
