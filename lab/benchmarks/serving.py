r"""Time answers of saved models of this project and of others.

    python -m lab.benchmarks.serving --spm_model_file=30k-clean.model \
        --torch_python=torch_venv/bin/python --onnx_python=venv/bin/python

    python -m lab.benchmarks.serving --spm_model_file=30k-clean.model \
        --torch_python=torch_venv/bin/python --mixed=together

    python -m lab.benchmarks.serving --spm_model_file=30k-clean.model \
        --onnx_python=venv/bin/python --cold_start

The first times loaded models. Every implementation runs in its own process and
answers in turn. A request is one batch of ids without padding, as NumPy arrays;
the answer is the output of the last block and the pooled output, as float32
NumPy arrays. Medians are printed as a Markdown table for each shape. All
processes of a shape exist at the same time.

The second times 64 sentences of 5 to 120 tokens, `together` in one call or one
by one (`apart`). albert_tf gets texts (signature `serving_default`), so its
time includes the tokenizer. The others get ids that are ready, padded to the
longest of a call.

The third times processes from their start to their first answer for a text.

Each model has random weights of the same sizes. All but Hugging Face's are
written before by other processes; that time is not counted.

albert_tf: the SavedModel that albert_tf.export writes, signature `tokens`.
model_garden: a SavedModel of Model Garden's AlbertEncoder; _bfloat16: its
policy mixed_bfloat16. hugging_face: AlbertModel in PyTorch's inference mode;
_bfloat16: its weights converted; _compiled: torch.compile. onnx: what
albert_tf.export --format=onnx writes, in ONNX Runtime. openvino: the same file
in OpenVINO, optimized for latency; _bfloat16: its inference precision. All use
their default number of threads.

This file is both the parent and the worker processes, see side_by_side.py.
Hugging Face's and OpenVINO's may run in interpreters without this project's
packages. ONNX's interpreter needs all of them and tf2onnx, onnx and
onnxruntime.
"""

import argparse
import functools
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from lab.benchmarks import side_by_side
from lab.benchmarks.side_by_side import Config, Shape

WARM_UP_REQUESTS = 3  # The first one compiles.
COLD_START_ROUNDS = 3
TEXT = "The island has a lighthouse, and nobody remembers who built it."

# The arrays of a request and of an answer.
INPUTS = ("input_ids", "input_mask", "segment_ids")
OUTPUTS = ("sequence_output", "pooled_output")

NAMES = [
    "albert_tf_float32",
    "albert_tf_bfloat16",
    "model_garden_float32",
    "model_garden_bfloat16",
    "hugging_face_float32",
    "hugging_face_bfloat16",
    "hugging_face_float32_compiled",
    "hugging_face_bfloat16_compiled",
    "onnx_float32",
    "onnx_int8",
    "openvino_float32",
    "openvino_bfloat16",
]

MIXED = ("together", "apart")
SENTENCES, SHORTEST, LONGEST = 64, 5, 120  # Tokens, special ones included.

Arrays = Mapping[str, Any]  # NumPy arrays by name.
Ask = Callable[[Arrays], Sequence[Any]]  # Returns arrays as `OUTPUTS` says.


# Writing models, each in a process that ends. ---------------------------------


def make_service(
    settings: argparse.Namespace, precision: str
) -> tuple[Any, Any]:
    """Return an encoder of this project as a service, and its vocabulary."""
    import tf_keras as keras

    from albert_tf.model import modeling
    from albert_tf.serving import make
    from albert_tf.text import tokenization

    keras.utils.set_random_seed(0)
    config = modeling.AlbertConfig.from_json_file(settings.albert_config_file)
    vocabulary = tokenization.VocabularyOptions(settings.spm_model_file)
    tokenizer = tokenization.load(vocabulary)
    if tokenizer.vocab_size != config.vocab_size:
        raise ValueError(
            f"--spm_model_file={settings.spm_model_file} has "
            f"{tokenizer.vocab_size} pieces, --albert_config_file="
            f"{settings.albert_config_file} {config.vocab_size}."
        )
    encoder = modeling.AlbertModel(config, precision=precision)
    length = max(shape.length for shape in settings.shapes)
    return make.of_encoder(encoder, tokenizer, length), vocabulary


def write_albert_tf(
    settings: argparse.Namespace, precision: str, path: str
) -> None:
    """Write the SavedModel that albert_tf.export writes."""
    service, _ = make_service(settings, precision)
    from albert_tf.serving.formats import saved_model

    if precision != "float32":
        service.encoder.convert_for_serving()
    saved_model.save(service, path)


def write_model_garden(
    settings: argparse.Namespace, precision: str, path: str
) -> None:
    """Write a SavedModel of Model Garden's encoder, as a function of ids."""
    import tensorflow as tf
    import tf_keras as keras

    keras.utils.set_random_seed(0)
    config = side_by_side.read_config(settings.albert_config_file)
    root = tf.Module()
    root.encoder = side_by_side.make_model_garden_encoder(config, precision)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, n) for n in INPUTS
        ]
    )
    def tokens(
        input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        inputs = {
            "input_word_ids": input_ids,
            "input_mask": input_mask,
            "input_type_ids": segment_ids,
        }
        outputs = root.encoder(inputs, training=False)
        return {name: tf.cast(outputs[name], tf.float32) for name in OUTPUTS}

    tf.saved_model.save(root, path, signatures={"tokens": tokens})


def write_onnx(settings: argparse.Namespace, precision: str, path: str) -> None:
    """Write the folder that albert_tf.export --format=onnx writes."""
    service, vocabulary = make_service(settings, "float32")
    from albert_tf.serving.formats import id_model, onnx_model

    model = id_model.IdModel(service, vocabulary, precision)
    id_model.save(model, path, onnx_model.FORMAT)


def write_sentences(settings: argparse.Namespace, path: str) -> None:
    """Write a JSON file with `texts` and their `ids`, special ones included.

    The texts are random words of one piece each, so that their lengths in
    tokens are those that are drawn: each length is as likely.
    """
    from albert_tf.text import tokenization

    vocabulary = tokenization.VocabularyOptions(settings.spm_model_file)
    tokenizer = tokenization.load(vocabulary)
    words = [piece[1:] for piece in tokenizer.pieces if piece[0] == "\u2581"]
    words = [word for word in words if word.isascii() and word.isalpha()]
    words = [word for word in words if len(tokenizer.encode(word)) == 1]
    generator = random.Random(0)
    lengths = [generator.randint(SHORTEST, LONGEST) for _ in range(SENTENCES)]
    texts = [
        " ".join(generator.choices(words, k=length - 2)) for length in lengths
    ]
    ids = [
        [tokenizer.cls_id, *tokenizer.encode(text), tokenizer.sep_id]
        for text in texts
    ]
    assert [len(row) for row in ids] == lengths
    content = json.dumps({"texts": texts, "ids": ids})
    pathlib.Path(path).write_text(content)


WRITERS: dict[str, Callable[[argparse.Namespace, str, str], None]] = {
    "albert_tf": write_albert_tf,
    "model_garden": write_model_garden,
    "onnx": write_onnx,
}


def written_name(name: str) -> str | None:
    """Return the name of the model that an implementation loads, if any."""
    implementation, precision, _ = side_by_side.parse_name(name)
    if implementation == "openvino":
        return "onnx_float32"
    return name if implementation in WRITERS else None


# Asking models. Each imports what it needs in its own process. ----------------


def make_request(config: Config, shape: Shape) -> Arrays:
    """Return random ids in two segments, int32, the same for all."""
    import numpy as np

    size = (shape.batch, shape.length)
    ids = np.random.default_rng(0).integers(5, config["vocab_size"], size)
    halves = np.arange(shape.length) * 2 // shape.length + np.zeros(size)
    values = ids, np.ones(size), halves
    arrays = (value.astype(np.int32) for value in values)
    return dict(zip(INPUTS, arrays, strict=True))


def make_mixed_requests(settings: argparse.Namespace) -> list[Arrays]:
    """Return requests for all sentences: one, or one for each."""
    content = json.loads(pathlib.Path(settings.sentences).read_text())
    together = settings.mixed == "together"
    if settings.name.startswith("albert_tf"):
        texts = content["texts"]
        calls = [texts] if together else [[text] for text in texts]
        return [{"text": call} for call in calls]
    ids = content["ids"]
    return [pad(call) for call in ([ids] if together else [[r] for r in ids])]


def pad(rows: Sequence[Sequence[int]]) -> Arrays:
    """Return ids, mask and segments, int32 [rows, longest].

    Example:
        pad([[2, 3], [2, 9, 3]])["input_ids"] = [[2, 3, 0], [2, 9, 3]]
    """
    import numpy as np

    longest = max(map(len, rows))
    ids = np.zeros((len(rows), longest), np.int32)
    mask = np.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
        mask[index, : len(row)] = 1
    return dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))


def load_saved_model(settings: argparse.Namespace) -> Ask:
    """Load a SavedModel with the signature `tokens`, or one for texts."""
    import tensorflow as tf

    if settings.name.startswith("albert_tf"):
        import tensorflow_text  # noqa: F401 - operations of the tokenizer.
    model = tf.saved_model.load(settings.model)

    def ask(request: Arrays) -> list[Any]:
        # The model must be kept: its function does not keep the weights alive.
        is_text = "text" in request
        name = "serving_default" if is_text else "tokens"
        names = ("mean_output", "pooled_output") if is_text else OUTPUTS
        inputs = {k: tf.constant(v) for k, v in request.items()}
        outputs = model.signatures[name](**inputs)
        return [outputs[name].numpy() for name in names]

    return ask


def make_hugging_face(settings: argparse.Namespace) -> Ask:
    """Make Hugging Face's model, with new weights."""
    import torch
    import transformers

    _, precision, compiled = side_by_side.parse_name(settings.name)
    torch.manual_seed(0)
    config = side_by_side.read_config(settings.albert_config_file)
    model = transformers.AlbertModel(
        side_by_side.make_hugging_face_config(config)
    ).eval()
    model = model.to(getattr(torch, precision))
    if compiled:
        # For inference only: prepares the layout of the weights once.
        model = torch.compile(model, options={"freezing": True})

    @torch.inference_mode()
    def ask(request: Arrays) -> list[Any]:
        ids, mask, segments = (
            torch.from_numpy(request[name]).long() for name in INPUTS
        )
        outputs = model(
            input_ids=ids, attention_mask=mask, token_type_ids=segments
        )
        both = outputs.last_hidden_state, outputs.pooler_output
        return [output.float().numpy() for output in both]

    return ask


def load_onnx(settings: argparse.Namespace) -> Ask:
    """Load a file of ONNX."""
    import onnxruntime

    session = onnxruntime.InferenceSession(f"{settings.model}/model.onnx")
    return functools.partial(session.run, OUTPUTS)


def load_openvino(settings: argparse.Namespace) -> Ask:
    """Load a file of ONNX in OpenVINO."""
    import openvino

    _, precision, _ = side_by_side.parse_name(settings.name)
    model = openvino.Core().compile_model(
        f"{settings.model}/model.onnx",
        "CPU",
        {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[
                precision
            ],
        },
    )

    def ask(request: Arrays) -> list[Any]:
        outputs = model(request)
        return [outputs[name] for name in OUTPUTS]

    return ask


LOADERS: dict[str, Callable[[argparse.Namespace], Ask]] = {
    "albert_tf": load_saved_model,
    "model_garden": load_saved_model,
    "hugging_face": make_hugging_face,
    "onnx": load_onnx,
    "openvino": load_openvino,
}


def measure_resident_mib() -> float:
    """Return the current memory of this process; Linux only."""
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize() / 2**20


def serve(settings: argparse.Namespace, answers: IO[str]) -> None:
    """Make all requests for every line of standard input, report their cost.

    Args:
        settings: `name`, one of `NAMES`; `model`, its path; the options.
        answers: Gets first shape and deviation of `sequence_output`, then what
            `side_by_side.answer_turns` writes; `mib` is what is resident.
    """
    implementation, _, _ = side_by_side.parse_name(settings.name)
    ask = LOADERS[implementation](settings)
    config = side_by_side.read_config(settings.albert_config_file)
    requests = [make_request(config, settings.shapes[0])]
    if settings.mixed:
        requests = make_mixed_requests(settings)

    def turn() -> list[Any]:
        return [ask(request)[0] for request in requests]

    for _ in range(1 if settings.mixed else WARM_UP_REQUESTS):
        output = turn()[0]
    ready = {"shape": output.shape, "deviation": float(output.std())}
    side_by_side.send(answers, ready)
    side_by_side.answer_turns(
        answers, turn, lambda _: {"mib": measure_resident_mib()}
    )


# Processes that answer once, for `--cold_start`. ------------------------------


def start_tensorflow(model: str) -> None:
    """Only load TensorFlow."""
    del model
    import tensorflow  # noqa: F401


def start_saved_model(model: str) -> None:
    """Answer for a text, with TensorFlow only."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - operations of the tokenizer.

    loaded = tf.saved_model.load(model)
    outputs = loaded.signatures["serving_default"](text=tf.constant([TEXT]))
    outputs["pooled_output"].numpy()


def start_onnx(model: str) -> None:
    """Answer for a text, with this project's tokenizer and ONNX Runtime."""
    import numpy as np
    import onnxruntime

    from albert_tf.text import tokenization

    tokenizer = tokenization.Tokenizer(f"{model}/spm.model")
    session = onnxruntime.InferenceSession(f"{model}/model.onnx")
    ids = [tokenizer.cls_id, *tokenizer.encode(TEXT), tokenizer.sep_id]
    row = np.array([ids], np.int32)
    values = row, np.ones_like(row), np.zeros_like(row)
    session.run(OUTPUTS[1:], dict(zip(INPUTS, values, strict=True)))


# What is started, and what it loads. `predict` is a script of this project.
PREDICT = "albert_tf.predict"
STARTERS: dict[str, tuple[Callable[[str], None] | None, str | None]] = {
    "tensorflow": (start_tensorflow, None),
    "saved_model": (start_saved_model, "albert_tf_float32"),
    PREDICT: (None, "albert_tf_float32"),
    "onnx_float32": (start_onnx, "onnx_float32"),
    "onnx_int8": (start_onnx, "onnx_int8"),
}


# The parent. ------------------------------------------------------------------


def make_command(
    settings: argparse.Namespace, role: str, name: str, **others: str
) -> list[str]:
    """Return the command of a process of this file.

    Args:
        settings: The options, which it is given too.
        role: What it does: write, serve or start.
        name: For which implementation, or start.
        **others: Further options, or others than those of `settings`.
    """
    python = sys.executable
    if name.startswith("hugging_face"):
        python = settings.torch_python
    elif name.startswith("onnx"):
        python = settings.onnx_python
    elif name.startswith("openvino"):
        python = settings.openvino_python
    given = {
        "albert_config_file": settings.albert_config_file,
        "spm_model_file": settings.spm_model_file,
        "shapes": format_shapes(settings.shapes),
        "role": role,
        "name": name,
        **others,
    }
    given_options = [f"--{k}={v}" for k, v in given.items()]
    return [python, "-m", "lab.benchmarks.serving", *given_options]


def format_shapes(shapes: Sequence[Shape]) -> str:
    """Return what `side_by_side.parse_shapes` reads."""
    return ",".join(f"{shape.length}x{shape.batch}" for shape in shapes)


def run(command: Sequence[str]) -> None:
    """Run a process to its end.

    Raises:
        RuntimeError: It fails; the message has the last error it printed.
    """
    finished = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, **side_by_side.ENVIRONMENT},
    )
    if finished.returncode:
        raise RuntimeError(side_by_side.last_error(finished.stderr))


def write_models(
    settings: argparse.Namespace, names: Sequence[str], folder: str
) -> dict[str, str]:
    """Write models and return their paths by name; some may fail."""
    paths = {}
    for name in dict.fromkeys(filter(None, map(written_name, names))):
        path = os.path.join(folder, name)
        try:
            run(make_command(settings, "write", name, model=path))
        except RuntimeError as error:
            print(f"- {name}: not written, {error}", flush=True)
            continue
        files = (f for f in pathlib.Path(path).rglob("*") if f.is_file())
        mib = sum(file.stat().st_size for file in files) / 2**20
        print(f"- {name}: written, {mib:.1f} MiB on disk", flush=True)
        paths[name] = path
    return paths


def start(
    settings: argparse.Namespace,
    paths: Mapping[str, str],
    name: str,
    shape: Shape,
) -> side_by_side.Worker | None:
    """Start one implementation; if it fails, print why and return None."""
    model = written_name(name)
    if model and model not in paths:
        return None
    given = {"model": paths[model] if model else ""}
    if settings.mixed:
        given |= {"mixed": settings.mixed, "sentences": settings.sentences}
    command = make_command(
        settings, "serve", name, shapes=format_shapes([shape]), **given
    )
    started = side_by_side.start(name, command)
    if started is None:
        return None
    worker, ready, seconds = started
    print(
        f"- {name}: ready after {seconds:.0f} s, answers {ready['shape']} of "
        f"deviation {ready['deviation']:.3f}",
        flush=True,
    )
    return worker


def report(
    workers: Sequence[side_by_side.Worker],
    base: str,
    sequences: int,
    caption: str,
) -> list[str]:
    """Return a caption and the lines of a Markdown table.

    Args:
        workers: Processes that have worked.
        base: The name of the one that others are compared with.
        sequences: Of a turn.
        caption: The first line.
    """
    seconds = {w.name: w.median("seconds") for w in workers}
    processor = {w.name: w.median("processor_seconds") for w in workers}
    header = (
        "implementation, ms/request, fastest, sequences/s, CPU s, "
        f"resident MiB, speed v {base}, by CPU s"
    ).split(", ")
    rows = [
        [
            worker.name,
            f"{1000 * seconds[worker.name]:.1f}",
            f"{1000 * worker.fastest():.1f}",
            f"{sequences / seconds[worker.name]:.2f}",
            f"{processor[worker.name]:.3f}",
            f"{worker.results[-1]['mib']:,.0f}",
            f"{seconds[base] / seconds[worker.name]:.2f}x",
            f"{processor[base] / processor[worker.name]:.2f}x",
        ]
        for worker in workers
    ]
    return [
        caption,
        "",
        *side_by_side.format_table(header, rows),
    ]


def compare(
    settings: argparse.Namespace, paths: Mapping[str, str], shape: Shape
) -> None:
    """Measure one shape, or mixed lengths, and print its table.

    Raises:
        SystemExit: The base cannot be measured.
    """
    caption = f"Length {shape.length}, batch {shape.batch}, all real tokens."
    sequences = shape.batch
    if settings.mixed:
        caption = f"{SENTENCES} sentences of {SHORTEST} to {LONGEST} tokens, "
        caption += f"{settings.mixed}."
        sequences = SENTENCES
    side_by_side.compare(
        lambda name: start(settings, paths, name, shape),
        lambda workers: report(workers, settings.base, sequences, caption),
        settings.implementations,
        needed=[settings.base],
        rounds=settings.rounds,
        in_a_row=settings.requests,
    )


def time_start(command: Sequence[str]) -> tuple[float, float]:
    """Return the seconds to the first answer, and processor seconds of all.

    Raises:
        RuntimeError: It fails; the message has the last error it printed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=side_by_side.ROOT,
            env={**os.environ, **side_by_side.ENVIRONMENT},
        )
        process.stdin.write(f"{TEXT}\n")
        process.stdin.close()
        answer = process.stdout.readline()
        seconds = time.perf_counter() - began
        process.wait()
        if not answer:
            errors.seek(0)
            raise RuntimeError(side_by_side.last_error(errors.read()))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user = after.ru_utime - before.ru_utime
    return seconds, user + after.ru_stime - before.ru_stime


def compare_starts(
    settings: argparse.Namespace, paths: Mapping[str, str]
) -> None:
    """Time all starts in turn and print their table.

    The first round does not count: files are not in memory yet.
    """
    commands = {}
    for name, (_, model) in STARTERS.items():
        if model is None or model in paths:
            path = paths.get(str(model), "")
            commands[name] = make_command(settings, "start", name, model=path)
    if PREDICT in commands:
        commands[PREDICT] = [sys.executable, "-m", PREDICT]
        commands[PREDICT] += [f"--saved_model={paths[STARTERS[PREDICT][1]]}"]
    results: dict[str, list[tuple[float, float]]] = {n: [] for n in commands}
    for _ in range(1 + COLD_START_ROUNDS):
        for name, command in list(commands.items()):
            try:
                results[name].append(time_start(command))
            except RuntimeError as error:
                print(f"- {name}: not measured, {error}", flush=True)
                del commands[name]
    rows = []
    for name in commands:
        seconds, processor = zip(*results[name][1:], strict=True)
        rows.append(
            [
                name,
                f"{statistics.median(seconds):.2f}",
                f"{min(seconds):.2f}",
                f"{statistics.median(processor):.2f}",
            ]
        )
    print(
        "\nFrom the start of a process to its first answer (CPU s: to its "
        f"end); medians of {COLD_START_ROUNDS} rounds in turn; "
        f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} after.\n",
        *side_by_side.format_table(["start", "s", "fastest", "CPU s"], rows),
        sep="\n",
        flush=True,
    )


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--spm_model_file",
        required=True,
        help="SentencePiece model with the vocabulary of the model.",
    )
    add(
        "--cold_start",
        action="store_true",
        help="Time starts of processes instead of requests.",
    )
    add(
        "--implementations",
        default=",".join(NAMES),
        help="What to compare. Default: all, %(default)s",
    )
    add(
        "--mixed",
        choices=MIXED,
        help="Time sentences of mixed lengths instead of --shapes: in one "
        "call, or one by one.",
    )
    side_by_side.add_options(
        parser,
        shapes="128x1,128x8,128x32",
        model="The model.",
        rounds="Turns of each implementation.",
    )
    add(
        "--requests",
        type=int,
        default=3,
        help="Requests in a row in each turn. Default: %(default)s",
    )
    add(
        "--onnx_python",
        default=sys.executable,
        help="Python that has onnxruntime, onnx and tf2onnx beside what this "
        "project needs.",
    )
    add(
        "--openvino_python",
        default=sys.executable,
        help="Python that has openvino; it needs nothing else.",
    )
    for hidden in ("--role", "--name", "--model", "--sentences"):
        add(hidden, help=argparse.SUPPRESS)
    return parser


def play(settings: argparse.Namespace) -> None:
    """Do the work of one implementation's process."""
    # Output of packages must not be mixed with the answers.
    with side_by_side.open_answers() as answers:
        if settings.role == "serve":
            serve(settings, answers)
        elif settings.role == "sentences":
            write_sentences(settings, settings.model)
        elif settings.role == "start":
            starter, _ = STARTERS[settings.name]
            starter(settings.model)
            side_by_side.send(answers, {"name": settings.name})
        else:
            implementation, precision, _ = side_by_side.parse_name(
                settings.name
            )
            WRITERS[implementation](settings, precision, settings.model)


def main() -> None:
    """Compare; or do the work of one implementation's process."""
    parser = make_parser()
    settings = parser.parse_args()
    if settings.role:
        play(settings)
        return
    side_by_side.check(parser, settings, NAMES, ["rounds", "requests"])
    with tempfile.TemporaryDirectory() as folder:
        if settings.cold_start:
            loaded = dict.fromkeys(m for _, m in STARTERS.values() if m)
            paths = write_models(settings, list(loaded), folder)
            compare_starts(settings, paths)
            return
        paths = write_models(settings, settings.implementations, folder)
        if settings.mixed:
            settings.sentences = os.path.join(folder, "sentences.json")
            run(
                make_command(
                    settings, "sentences", "", model=settings.sentences
                )
            )
            del settings.shapes[1:]
        for shape in settings.shapes:
            compare(settings, paths, shape)


if __name__ == "__main__":
    main()
