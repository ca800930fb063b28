"""The suite of GLUE tasks: commands, table."""

import types
import zipfile

import pytest

from albert_tf import run_glue
from albert_tf.common import options, scores
from albert_tf.tasks.glue import specs
from tests.albert_tf.finetuning import small_runs
from tests.conftest import python, refused


def suite(world, output_dir, **values):
    return run_glue.GlueOptions(
        data_dir=world.glue,
        output_dir=str(output_dir),
        spm_model_file=world.vocabulary,
        albert_config_file=world.config,
        **values,
    )


def test_command_of_a_task_names_its_recipe_first(world, tmp_path):
    settings = suite(
        world, tmp_path, tasks="RTE", overrides="--train_step=3 --do_eval"
    )
    assert run_glue.choose_tasks(settings) == ["rte"]
    assert run_glue.flags_of(settings, "rte") == [
        "--flagfile=configs/glue/rte.flags",
        "--task_name=rte",
        f"--data_dir={world.glue}",
        f"--output_dir={tmp_path}/rte",
        f"--albert_config_file={world.config}",
        f"--spm_model_file={world.vocabulary}",
        "--train_step=3",
        "--do_eval",
    ]


@pytest.mark.parametrize(("of_task", "status"), [(1, 1), (2, 2), (-9, 1)])
def test_a_suite_ends_as_its_task(
    world, tmp_path, monkeypatch, of_task, status
):
    settings = suite(world, tmp_path, tasks="rte")
    monkeypatch.setattr(
        run_glue.subprocess,
        "run",
        lambda command, check: types.SimpleNamespace(returncode=of_task),
    )
    with pytest.raises(SystemExit) as ended:
        run_glue.run(settings)
    assert ended.value.code == status


def test_small_tasks_may_start_from_mnli(world, tmp_path):
    best = scores.RunScores(f"{tmp_path}/mnli/run_1", 1, 2, {"accuracy": 0.5})
    (tmp_path / "mnli").mkdir()
    summary = scores.Summary("mnli", "accuracy", (best,))
    scores.write(f"{tmp_path}/mnli", summary)
    settings = suite(world, tmp_path, from_mnli=True, init_checkpoint="v2")
    names = run_glue.choose_tasks(settings)
    assert names[0] == "mnli"
    assert sorted(names) == sorted(specs.TASKS.keys() - {"ax"})
    flags = {name: run_glue.flags_of(settings, name) for name in names}
    for flag, tasks in (
        (f"--init_checkpoint={best.folder}", {"rte", "sts-b", "mrpc"}),
        ("--new_head=true", {"rte", "sts-b", "mrpc"}),
        ("--init_checkpoint=v2", set(names) - {"rte", "sts-b", "mrpc"}),
    ):
        assert {name for name in names if flag in flags[name]} == tasks


def test_table_of_the_suite_by_hand(tmp_path):
    def summary(name, *values):
        runs = [scores.RunScores("f", n, 1, v) for n, v in enumerate(values)]
        return scores.Summary(name, "accuracy", tuple(runs))

    table = run_glue.to_markdown(
        {
            "mrpc": summary("mrpc", {"accuracy": 0.8, "f1": 0.9, "loss": 3.0}),
            "mnli": summary(
                "mnli",
                {"accuracy": 0.5, "accuracy_mismatched": 0.7, "loss": 1.0},
                {"accuracy": 0.6, "accuracy_mismatched": 0.8, "loss": 1.0},
                {"accuracy": 0.7, "accuracy_mismatched": 0.9, "loss": 1.0},
            ),
        }
    )
    assert table.splitlines()[2:] == [
        "| mrpc | accuracy / f1 | 80.0 / 90.0 | 85.0 | 0.0 / 0.0 | 1 |",
        "| mnli | accuracy / accuracy_mismatched | 60.0 / 80.0 | 70.0 | "
        "10.0 / 10.0 | 3 |",
        "| average of 2 | | | 77.5 | | |",
    ]
    # It may be replaced, other files may not.
    for text, is_own in ((table, True), ("mine\n" + table, False)):
        small_runs.write(tmp_path / "table.md", text)
        assert run_glue._is_table(str(tmp_path / "table.md")) == is_own


def test_submission_holds_the_predictions_of_all_tasks(world, tmp_path):
    names = ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm"]
    names += ["AX", "QNLI", "RTE", "WNLI"]
    for name in names:
        task = name.partition("-m")[0].lower().replace("ax", "mnli")
        small_runs.write(tmp_path / f"{task}/{name}.tsv", f"of {name}\n")
    path = str(tmp_path / "glue.zip")
    settings = suite(world, tmp_path, tasks="rte", submission_file=path)
    run_glue.check_submission(settings, ["rte"])
    run_glue.write_submission(str(tmp_path), path)
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == [f"{name}.tsv" for name in names]
        assert {e.compress_type for e in archive.infolist()} == {
            zipfile.ZIP_DEFLATED
        }
        assert archive.read("AX.tsv") == b"of AX\n"
    (tmp_path / "mnli/AX.tsv").unlink()
    with refused(r"leave .* out: mnli\.$"):
        run_glue.check_submission(settings, ["rte"])


@pytest.mark.slow
def test_suite_runs_its_tasks_and_prints_the_table(world, tmp_path):
    settings = suite(
        world,
        tmp_path,
        tasks="rte,mnli",
        from_mnli=True,
        overrides="--train_step=2 --warmup_step=1 --max_seq_length=32 "
        "--train_batch_size=4",
    )
    flags = [
        f"--{name}={value}"
        for name, value in options.to_dict(settings).items()
        if value is not None
    ]
    done = python("-m", "albert_tf.run_glue", *flags)
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "glue_table.md").read_text()
    assert done.stdout.endswith(table)
    assert "| average of 2 |" in table
    assert (tmp_path / "mnli/AX.tsv").exists()
