"""The writer on a Dask cluster: the bytes of the local writer.

The tests with the mark need Dask, which the environment of Beam has (`make
test-beam`), so nothing here comes from conftest.py. Scheduler and workers are
processes of their own.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from albert_tf.common import cluster, errors, options, parallel
from data_prep import create_pretraining_data, train_sentencepiece

ROOT = pathlib.Path(cluster.__file__).parents[2]
WORDS = "it rains we stay at home and read old books by the fire".split()
WORK = "*.work"  # Folders of unfinished work.
needs_dask = pytest.mark.beam


def test_the_package_is_named_where_it_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(errors.UserError, match="pip install distributed"),
        cluster.connect("host:8786", str(tmp_path)),
    ):
        pass


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A text of some blocks, and its vocabulary."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(3)
    lines = []
    for _ in range(120):
        for _ in range(rng.randint(1, 10)):
            lines.append(" ".join(rng.choices(WORDS, k=rng.randint(3, 9))))
        lines.append("")
    (folder / "a.txt").write_text("\n".join(lines))
    train_sentencepiece.run(
        train_sentencepiece.Options(
            input_file=str(folder / "a.txt"),
            output_prefix=str(folder / "tiny"),
            vocab_size=38,
        )
    )
    return folder


def start(*command, cwd, path=ROOT, **options):
    environment = {
        **os.environ,
        "PYTHONPATH": str(path),
        "DASK_LOGGING__DISTRIBUTED": "error",
    }
    return subprocess.Popen(
        [sys.executable, "-m", *command], cwd=cwd, env=environment, **options
    )


@contextlib.contextmanager
def scheduler(folder, path=ROOT):
    """Run a scheduler; yields its address."""
    with run_scheduler(folder, path) as (_, address):
        yield address


@contextlib.contextmanager
def run_scheduler(folder, path=ROOT):
    """Run a scheduler; yields its process and its address."""
    described = folder / "scheduler.json"
    process = start(
        *("distributed.cli.dask_scheduler", "--host=127.0.0.1", "--port=0"),
        *("--no-dashboard", f"--scheduler-file={described}"),
        cwd=folder,
        path=path,
    )
    try:
        wait_until(described.exists)
        yield process, json.loads(described.read_text())["address"]
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def run_workers(folder, address, number, path=ROOT):
    """Run workers of one thread; yields their processes."""
    workers = [
        start(
            *("distributed.cli.dask_worker", address, "--nthreads=1"),
            *("--no-dashboard", "--no-nanny", "--death-timeout=60"),
            cwd=folder,
            path=path,
        )
        for _ in range(number)
    ]
    try:
        wait_for_workers(address, number)
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def wait_for_workers(address, number):
    import distributed

    with distributed.Client(address) as client:
        client.wait_for_workers(number, timeout=60)


def wait_until(there):
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def write(corpus, monkeypatch):
    """Write records into a folder, in small pieces; return their digests."""
    monkeypatch.setattr(create_pretraining_data, "_BLOCK_BYTES", (700, 700))
    monkeypatch.setattr(create_pretraining_data, "_UNIT_TOKENS", (300, 300))
    monkeypatch.setattr(create_pretraining_data, "_PART_POSITIONS", (640, 640))

    def run(folder, **changes):
        # Not in the folder of the workers, which must not matter.
        monkeypatch.chdir(folder)
        create_pretraining_data.run(
            options.from_dict(
                create_pretraining_data.CreatePretrainingDataOptions,
                make_options(corpus, **changes),
            )
        )
        return digests(folder)

    return run


def make_options(corpus, **changes):
    return {
        "input_file": str(corpus / "a.txt"),
        "output_file": "records/a.tfrecord",
        "num_shards": 3,
        "spm_model_file": str(corpus / "tiny.model"),
        "dupe_factor": 3,
        "max_seq_length": 32,
        "max_predictions_per_seq": 5,
        **changes,
    }


def digests(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (folder / "records").glob("*.tfrecord*-of-*")
        if not path.name.endswith((".json", ".md", ".png"))
    }


@pytest.fixture
def folders(tmp_path):
    """Folders of the cluster, of its records and of the local records."""
    made = [tmp_path / name for name in ("cluster", "far", "near")]
    for folder in made:
        folder.mkdir()
    return made


@needs_dask
@pytest.mark.filterwarnings("ignore")  # Dask's own.
def test_records_are_those_of_the_local_writer(write, corpus, folders):
    """By its function, and as a program, whose functions have no module."""
    place, far, near = folders
    with scheduler(place) as address, run_workers(place, address, 2):
        records = write(far, dask_scheduler=address)
        wanted = make_options(corpus, dask_scheduler=address)
        flags = [f"--{name}={value}" for name, value in wanted.items()]
        program = start("data_prep.create_pretraining_data", *flags, cwd=place)
        assert program.wait() == 0
    assert len(records) == 3
    assert records == digests(place) == write(near, num_workers=1)
    assert not list(far.glob(f"records/{WORK}"))


@needs_dask
@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_changes_nothing(write, folders):
    """One of two is killed as soon as it has finished a block."""
    place, far, near = folders

    def kill(worker):
        wait_until(lambda: list(far.glob(f"records/{WORK}/block-*.json")))
        worker.send_signal(signal.SIGKILL)

    with (
        scheduler(place) as address,
        run_workers(place, address, 2) as (worker, _),
    ):
        killer = threading.Thread(target=kill, args=[worker])
        killer.start()
        # Many passes, so that work is left when the first block is done.
        records = write(far, dask_scheduler=address, dupe_factor=20)
        killer.join()
        assert worker.wait(timeout=60) == -signal.SIGKILL
    assert records == write(near, num_workers=1, dupe_factor=20)


@needs_dask
@pytest.mark.filterwarnings("ignore")
def test_a_killed_scheduler_is_named_and_finished_work_kept(
    write, corpus, folders
):
    place, far, near = folders
    wanted = make_options(corpus, dupe_factor=40)
    with (
        run_scheduler(place) as (process, address),
        run_workers(place, address, 1),
    ):
        flags = [f"--{name}={value}" for name, value in wanted.items()]
        program = start(
            "data_prep.create_pretraining_data",
            f"--dask_scheduler={address}",
            *flags,
            cwd=far,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: list(far.glob(f"records/{WORK}/block-*.json")))
        process.kill()
        _, output = program.communicate(timeout=120)
    assert program.returncode == 2, output
    assert "Traceback" not in output, output
    assert f"scheduler at {address} has ended" in output
    assert list(far.glob(f"records/{WORK}/block-*.json"))
    (far / "records").rename(near / "records")
    goes_on = start("data_prep.create_pretraining_data", *flags, cwd=near)
    assert goes_on.wait() == 0
    records = digests(near)
    shutil.rmtree(far)
    far.mkdir()
    whole = start("data_prep.create_pretraining_data", *flags, cwd=far)
    assert whole.wait() == 0
    assert len(records) == 3 and records == digests(far)


@needs_dask
@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_without_the_project_is_named(tmp_path):
    with (
        scheduler(tmp_path, path=tmp_path) as address,
        run_workers(tmp_path, address, 1),
        pytest.raises(errors.UserError, match="import .* the scheduler"),
        cluster.connect(address, str(tmp_path)),
    ):
        pass


@needs_dask
@pytest.mark.filterwarnings("ignore")
def test_errors_of_calls_and_of_the_cluster_are_told(tmp_path):
    with scheduler(tmp_path) as address:
        with (
            pytest.raises(errors.UserError, match="has no workers"),
            cluster.connect(address, str(tmp_path)),
        ):
            pass
        with (
            run_workers(tmp_path, address, 1, path=tmp_path),
            pytest.raises(errors.UserError, match="cannot import .*albert_tf"),
            cluster.connect(address, str(tmp_path)),
        ):
            pass
        with run_workers(tmp_path, address, 1):
            missing = str(tmp_path / "missing")
            with (
                pytest.raises(errors.UserError, match="do not see the folder"),
                cluster.connect(address, missing),
            ):
                pass
            with (
                pytest.raises(ZeroDivisionError),
                cluster.connect(address, str(tmp_path)) as client,
                cluster.workers(client, "shared") as each,
            ):
                list(each(_divide, [1, 0]))
            with (
                cluster.connect(address, str(tmp_path)) as client,
                cluster.workers(client, "shared") as each,
            ):
                assert list(each(_name, range(20))) == [
                    f"shared {item}" for item in range(20)
                ]
    with (
        pytest.raises(errors.UserError, match="cannot be reached"),
        cluster.connect("127.0.0.1:9", str(tmp_path)),
    ):
        pass


def _divide(item):
    return 1 / item


def _name(item):
    return f"{parallel.context()} {item}"
