"""The soak test itself, on few kills."""

import json
import subprocess
import sys

from tests.conftest import ROOT


def soak(folder, *options):
    return subprocess.run(
        [sys.executable, "-m", "lab.soak", f"--output_dir={folder}", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def results(folder):
    (path,) = folder.glob("*/results.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_two_jobs_are_killed_twice_each_and_end_as_undisturbed(tmp_path):
    options = (
        *("--jobs=writer,writer_workers", "--kills=2", "--num_stories=60"),
        *("--faults=changed_text", "--fault_rounds=1"),
    )
    done = soak(tmp_path, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = results(tmp_path)
    for job in ("writer", "writer_workers"):
        kills = [k for x in lines if x.get("job") == job for k in x["kills"]]
        assert sum(kill["hit"] for kill in kills) == 2
    assert "| writer, 2 workers | " in done.stdout
    # Nothing is left to do.
    again = soak(tmp_path, *options)
    assert again.returncode == 0, again.stdout + again.stderr
    assert results(tmp_path) == lines
