"""The writer on a Dask cluster: the bytes of the local writer.

Scheduler and workers are processes of their own.
"""

import contextlib
import errno
import functools
import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import types

import pytest

from albert_tf.common import cluster, options, parallel
from data_prep import create_pretraining_data
from tests.conftest import ROOT, refused
from tests.data_prep import writing

WRITER = "data_prep.create_pretraining_data"


def start(*command, cwd, path=ROOT, **options):
    # Without the path of this folder, which `make setup` adds to packages.
    packages = sysconfig.get_path("purelib")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{path}{os.pathsep}{packages}",
        "DASK_LOGGING__DISTRIBUTED": "error",
    }
    return subprocess.Popen(
        [sys.executable, "-S", "-m", *command],
        cwd=cwd,
        env=environment,
        **options,
    )


def wait_until(there):
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_json(path):
    """Whether a file is there and its writer has written it to the end."""
    with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
        return bool(json.loads(path.read_text()))
    return False


@contextlib.contextmanager
def run_scheduler(folder, path=ROOT):
    """Run a scheduler; yields its process and its address."""
    described = folder / "scheduler.json"
    described.unlink(missing_ok=True)
    process = start(
        "distributed.cli.dask_scheduler",
        "--host=127.0.0.1",
        "--port=0",
        "--no-dashboard",
        f"--scheduler-file={described}",
        cwd=folder,
        path=path,
    )
    try:
        wait_until(lambda: is_json(described))
        yield process, json.loads(described.read_text())["address"]
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def run_workers(folder, address, number, path=ROOT):
    """Run workers of one thread; yields their processes."""
    import distributed

    workers = [
        start(
            "distributed.cli.dask_worker",
            address,
            "--nthreads=1",
            "--no-dashboard",
            "--no-nanny",
            "--death-timeout=60",
            cwd=folder,
            path=path,
        )
        for _ in range(number)
    ]
    try:
        with distributed.Client(address) as client:
            client.wait_for_workers(number, timeout=60)
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


@contextlib.contextmanager
def run_cluster(folder, number):
    """Run both; yields the scheduler's process, its address, the workers'."""
    with (
        run_scheduler(folder) as (scheduler, address),
        run_workers(folder, address, number) as workers,
    ):
        yield scheduler, address, workers


@pytest.fixture(scope="module")
def cluster_of_two(tmp_path_factory):
    """The address of a scheduler with two workers."""
    with run_cluster(tmp_path_factory.mktemp("cluster"), 2) as (_, address, _):
        yield address


@pytest.fixture
def wanted(tmp_path, tiny_vocab):
    """Options of the writer, by their names."""
    writing.write_corpus(tmp_path / "a.txt", 3, 100)
    return {
        "input_file": str(tmp_path / "a.txt"),
        # Relative: the workers have another current folder.
        "output_file": "records/a.tfrecord",
        "num_shards": 3,
        "spm_model_file": tiny_vocab,
        "dupe_factor": 3,
        "max_seq_length": 32,
        "max_predictions_per_seq": 5,
    }


@pytest.fixture
def write(wanted, tmp_path, monkeypatch):
    """Write records into a new folder, in small pieces; return the files."""
    for name, size in (
        ("_BLOCK_BYTES", 700),
        ("_UNIT_TOKENS", 900),
        ("_PART_POSITIONS", 1600),
    ):
        monkeypatch.setattr(create_pretraining_data, name, (size, size))

    def run(name, **changes):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        create_pretraining_data.run(
            options.from_dict(
                create_pretraining_data.CreatePretrainingDataOptions,
                wanted | changes,
            )
        )
        return records(tmp_path / name)

    return run


def records(folder):
    files = writing.content(folder / "records")
    return {name: files[name] for name in files if ".card" not in name} | {
        name: None for name in files if name.endswith(".json")
    }


# All blocks are read, and a segmenter is loaded.
ALL = {"drop_duplicates": True, "single_segment_policy": "random"}
ALL["word_segmenter"] = "jieba"


@pytest.mark.parametrize("changes", [{}, ALL], ids=["default", "all"])
def test_records_are_those_of_the_local_writer(write, cluster_of_two, changes):
    far = write("far", **changes, dask_scheduler=cluster_of_two)
    assert len(far) == 4  # No work is left.
    assert far == write("near", **changes, num_workers=1)


def flags(wanted):
    return [f"--{name}={value}" for name, value in wanted.items()]


def test_the_program_has_no_module(write, wanted, tmp_path, cluster_of_two):
    """Its functions are those of `__main__`, which workers do not have."""
    given = flags(wanted | {"dask_scheduler": cluster_of_two})
    program = start(WRITER, *given, cwd=tmp_path)
    assert program.wait() == 0
    assert records(tmp_path) == write("near", num_workers=1)


def finished_blocks(folder):
    return list(folder.glob("records/*.work/block-*.json"))


def test_a_killed_worker_changes_nothing(write, tmp_path):
    """One of two is killed as soon as it has finished a block."""

    def kill(worker):
        wait_until(lambda: finished_blocks(tmp_path / "far"))
        worker.send_signal(signal.SIGKILL)

    with run_cluster(tmp_path, 2) as (_, address, (worker, _)):
        killer = threading.Thread(target=kill, args=[worker])
        killer.start()
        # Many passes, so that work is left when the first block is done.
        far = write("far", dask_scheduler=address, dupe_factor=5)
        killer.join()
        assert worker.wait(timeout=60) == -signal.SIGKILL
    assert far == write("near", num_workers=1, dupe_factor=5)


def test_a_killed_scheduler_is_named_and_finished_work_kept(
    write, wanted, tmp_path
):
    wanted["dupe_factor"] = 5
    with run_cluster(tmp_path, 1) as (process, address, _):
        program = start(
            WRITER,
            f"--dask_scheduler={address}",
            *flags(wanted),
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: finished_blocks(tmp_path))
        process.kill()
        _, output = program.communicate(timeout=120)
    assert program.returncode == 2, output
    assert "Traceback" not in output, output
    assert f"scheduler at {address} has ended" in output
    assert finished_blocks(tmp_path)
    goes_on = start(
        WRITER, *flags(wanted), cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert "Going on with the work" in goes_on.communicate()[1]
    assert records(tmp_path) == write("near", dupe_factor=5)


def test_a_scheduler_that_does_not_answer_is_told_from_a_full_disk(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(cluster, "_CONNECT", 2)
    with run_cluster(tmp_path, 1) as (process, address, _):
        connected = functools.partial(cluster.connect, address, str(tmp_path))
        with pytest.raises(OSError, match="disk"), connected():
            raise OSError(errno.ENOSPC, "disk")
        with (
            pytest.raises(parallel.WorkerEndedError, match="has ended"),
            connected() as client,
        ):
            process.kill()
            process.wait()
            # Before that, an open connection could be tried once more.
            wait_until(lambda: client.status != "running")
            with pytest.raises(OSError, match="Timed out") as found:
                client.run_on_scheduler(os.getpid)
            raise found.value


def refuse(address, folder, message):
    with (
        refused(message),
        cluster.connect(address, str(folder)),
    ):
        pass


@pytest.mark.slow
def test_a_cluster_that_cannot_be_used_is_named(tmp_path, cluster_of_two):
    refuse(cluster_of_two, tmp_path / "missing", "do not see the folder .*miss")
    refuse("127.0.0.1:9", tmp_path, "cannot be reached")
    with run_scheduler(tmp_path, path=tmp_path) as (_, address):
        refuse(address, tmp_path, "has no workers")
        # Only the scheduler lacks the project, then a worker, too.
        with run_workers(tmp_path, address, 1):
            refuse(address, tmp_path, "cannot import .* the scheduler")
        with run_workers(tmp_path, address, 1, path=tmp_path):
            refuse(address, tmp_path, "cannot import .* tcp://.*albert_tf")


def test_a_worker_with_other_code_is_refused(tmp_path):
    here = cluster.hash_code()
    client = types.SimpleNamespace(run_on_scheduler=lambda *_: (False, "other"))
    for answer, message in (
        ((True, here), None),
        ((False, here), "do not see the folder"),
        ((True, "0" * 64), "another version of Python or other code, tcp://b"),
    ):
        answers = {"tcp://a": (True, here), "tcp://b": answer}
        client.run = lambda *_, given=answers, **__: given
        said = cluster._explain_unusable(client, str(tmp_path))
        assert said is None if message is None else message in said


def test_every_file_of_the_code_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(
        cluster, "__file__", f"{tmp_path}/albert_tf/common/cluster.py"
    )
    places = [tmp_path / "albert_tf/a.py", tmp_path / "data_prep/writer/b.py"]
    for place in places:
        place.parent.mkdir(parents=True)
        place.write_text("1")
    (tmp_path / "tests").mkdir()
    found = [cluster.hash_code.__wrapped__()]
    for place in places:
        place.write_text("2")
        found.append(cluster.hash_code.__wrapped__())
    places[0].rename(places[0].with_name("c.py"))
    found.append(cluster.hash_code.__wrapped__())
    assert len({*found}) == 4
    (tmp_path / "tests/d.py").write_text("1")
    (tmp_path / "albert_tf/notes.txt").write_text("1")
    assert cluster.hash_code.__wrapped__() == found[-1]


def test_the_package_is_named_where_it_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    refuse("host:8786", tmp_path, "pip install distributed")


# In a module of its own, which workers import by its name.
CALLS = """
from albert_tf.common import parallel

def name(item):
    return parallel.shared_value(), item

def divide(item):
    return 1 / item
"""


def test_results_are_in_order_and_errors_are_those_of_the_calls(
    tmp_path, monkeypatch
):
    (tmp_path / "calls.py").write_text(CALLS)
    monkeypatch.syspath_prepend(tmp_path)
    import calls

    with (
        run_cluster(tmp_path, 2) as (_, address, _),
        cluster.connect(address, str(tmp_path)) as client,
    ):
        shared = ("a", "tuple")
        with cluster.workers(client, shared) as each:
            assert list(each(calls.name, range(20))) == [
                (shared, item) for item in range(20)
            ]
        with (
            pytest.raises(ZeroDivisionError),
            cluster.workers(client, None) as each,
        ):
            list(each(calls.divide, [1, 0]))
