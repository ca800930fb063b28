r"""Time albert_tf.serve with many clients, beside a plain loop of calls.

    python -m lab.benchmarks.server_load --saved_model=served/encoder/1

The model takes a `text`. Every client sends one of 256 texts of 3 to 120 words
at a time, over a connection that it keeps, and compares the answer with that of
the loop. The loop calls the signature in a process without a server, with one
text at a time.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import math
import multiprocessing
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

WORDS = (
    "the old ferry leaves harbour at nine in morning and rain falls on hill "
    "where she waits with two tickets because he had lost his lamp".split()
)
TEXTS, SHORTEST, LONGEST = 256, 3, 120  # Words.
TOLERANCE = 1e-4  # Other texts in a batch change the order of sums.
SIGNATURE = "serving_default"
PATH = f"/models/m/{SIGNATURE}"


def make_texts() -> list[str]:
    generator = random.Random(0)
    lengths = [generator.randint(SHORTEST, LONGEST) for _ in range(TEXTS)]
    return [" ".join(generator.choices(WORDS, k=n)) for n in lengths]


def is_same(found: Any, expected: Any) -> bool:
    """Compare answers; numbers may differ by TOLERANCE."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(
            is_same(found[key], expected[key]) for key in expected
        )
    if isinstance(expected, list):
        pairs = zip(found, expected, strict=True)
        return all(is_same(*pair) for pair in pairs)
    if isinstance(expected, float):
        return math.isclose(found, expected, abs_tol=TOLERANCE)
    return found == expected


def call_in_a_loop(path: str, seconds: float) -> tuple[list[Any], float]:
    """Return the answer to each text, and calls a second."""
    from albert_tf.serving.client import ask

    ask_model = ask.load(path, SIGNATURE)
    requests = [ask.Request({}, {"text": text}) for text in make_texts()]
    answers = [ask_model([request])[0] for request in requests]
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        ask_model([requests[count % TEXTS]])
        count += 1
    return answers, count / (time.perf_counter() - begun)


def ask_for(
    port: int, clients: int, seconds: float, answers: Sequence[Any]
) -> list[float]:
    """Have clients ask for some time, each in a thread.

    Returns:
        Seconds of each answer.

    Raises:
        ValueError: An answer was not the one in `answers`.
    """
    bodies = [json.dumps({"text": text}) for text in make_texts()]
    end = time.perf_counter() + seconds

    def ask(number: int) -> list[float]:
        generator, found = random.Random(number), []
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(connection):
            while time.perf_counter() < end:
                chosen, begun = generator.randrange(TEXTS), time.perf_counter()
                connection.request("POST", PATH, bodies[chosen])
                content = json.loads(connection.getresponse().read())
                if not is_same(content, answers[chosen]):
                    raise ValueError(f"{bodies[chosen]} got {content}")
                found.append(time.perf_counter() - begun)
        return found

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return list(itertools.chain(*pool.map(ask, range(clients))))


def start(path: str, port: int, flags: Sequence[str]) -> subprocess.Popen:
    """Start a server and wait until it is ready."""
    command = [sys.executable, "-m", "albert_tf.serve", f"m={path}"]
    server = subprocess.Popen([*command, f"--port={port}", *flags])
    while server.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
            return server
        time.sleep(0.1)
    raise SystemExit(f"The server ended with status {server.returncode}.")


def batches(port: int) -> tuple[float, float]:
    """Return rows and batches that were computed so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        text = page.read().decode()
    label = f'model="m",signature="{SIGNATURE}"'
    found = [
        re.search(rf"albert_batch_rows_{name}{{{label}}} (\S+)", text)
        for name in ("sum", "count")
    ]
    return tuple(float(match[1]) for match in found)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.contextmanager
def beside() -> Iterator[concurrent.futures.Executor]:
    """Give another process: clients must not wait for this one's threads."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        yield pool


def measure(settings: argparse.Namespace) -> None:
    path, seconds = settings.saved_model, settings.seconds
    with beside() as pool:
        loop = pool.submit(call_in_a_loop, path, seconds)
        answers, rate = loop.result()
    print(
        f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before."
        "\n\n"
        "| | requests/s | v loop | median ms | 99 % ms | rows a batch |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
        f"| loop | {rate:.0f} | 1.00x | {1000 / rate:.1f} (mean) | | 1 |",
        flush=True,
    )
    port = free_port()
    server = start(path, port, settings.flags)
    with contextlib.ExitStack() as stack, beside() as pool:
        stack.callback(server.wait)
        stack.callback(server.terminate)  # First.
        for clients in map(int, settings.clients.split(",")):
            rows, count = batches(port)
            times = pool.submit(
                ask_for, port, clients, seconds, answers
            ).result()
            more_rows, more_count = batches(port)
            found = len(times) / seconds
            hundredths = statistics.quantiles(times, n=100)
            size = (more_rows - rows) / (more_count - count)
            print(
                f"| {clients} clients | {found:.0f} | {found / rate:.2f}x | "
                f"{1000 * hundredths[49]:.1f} | {1000 * hundredths[98]:.1f} | "
                f"{size:.1f} |",
                flush=True,
            )
    print(f"\nLoad {os.getloadavg()[0]:.1f} after.")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--saved_model", required=True, help="An export that takes `text`.")
    add("--clients", default="1,8,64", help="At the same time, with commas.")
    add("--seconds", type=float, default=10.0, help="Of each measurement.")
    add("flags", nargs="*", help="Options of albert_tf.serve, behind --.")
    return parser


if __name__ == "__main__":
    measure(make_parser().parse_args())
