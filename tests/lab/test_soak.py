"""The soak test itself, on few kills."""

import json

from lab.soak import __main__ as soak
from lab.soak import compare
from tests.conftest import python, refused


def test_an_unknown_job_is_refused(tmp_path):
    settings = soak.SoakOptions(output_dir=str(tmp_path), jobs="writer,tainer")
    with refused("'tainer' is no name.*trainer"):
        soak.run(settings)
    assert not list(tmp_path.iterdir())


def test_two_jobs_are_killed_twice_each_and_end_as_undisturbed(tmp_path):
    what = ["--jobs=writer,writer_workers", "--kills=2", "--num_stories=60"]
    done = python("-m", "lab.soak", f"--output_dir={tmp_path}", *what)
    for job in ("writer", "writer_workers"):
        trials = [
            json.loads(path.read_text())
            for path in tmp_path.glob(f"*/{job}/trial-*.json")
        ]
        kills = [kill for trial in trials for kill in trial["kills"]]
        assert sum(kill["hit"] for kill in kills) == 2
        assert not any(trial["wrong"] for trial in trials)
    assert "| writer_workers | 2 | " in done.stdout


def test_folders_are_compared_without_inputs_logs_and_times(tmp_path):
    def make(name, files, folder="empty", seconds=1):
        place = tmp_path / name
        for path in ("inputs", f"out/{folder}"):
            (place / path).mkdir(parents=True)
        lines = {"split": "train", "loss": 1, "time": seconds}
        content = {"log": name, "out/metrics.jsonl": json.dumps(lines)}
        for path, text in (content | files).items():
            (place / path).write_text(text)
        return compare.describe(place)

    one = make("one", {"out/a": "1", "out/model.ckpt-1.data-0-of-1": "1"})
    assert sorted(one) == [
        "out/a",
        "out/empty/",
        "out/metrics.jsonl line 0",
        "out/model.ckpt-1.data-0-of-1",
    ]
    two = make("two", {"out/a": "2", "out/b": "1"}, "other", seconds=2)
    assert compare.differences(one, two) == [
        "out/a",
        "out/b",
        "out/empty/",
        "out/model.ckpt-1.data-0-of-1",
        "out/other/",
    ]
