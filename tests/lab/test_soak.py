"""The soak test itself, on few kills."""

import json

from tests.conftest import python


def test_two_jobs_are_killed_twice_each_and_end_as_undisturbed(tmp_path):
    what = ["--jobs=writer,writer_workers", "--kills=2", "--num_stories=60"]
    what += ["--faults=changed_text", "--fault_rounds=1"]
    done = python("-m", "lab.soak", f"--output_dir={tmp_path}", *what)
    (path,) = tmp_path.glob("*/results.jsonl")
    lines = list(map(json.loads, path.read_text().splitlines()))
    for job in ("writer", "writer_workers"):
        kills = [k for x in lines if x.get("job") == job for k in x["kills"]]
        assert sum(kill["hit"] for kill in kills) == 2
    assert ["refused"] == [x["outcome"] for x in lines if "fault" in x]
    assert "| writer_workers | 2 | " in done.stdout
