r"""Time answers of saved models of this project and of others.

    python -m lab.benchmarks.serving --spm_model_file=30k-clean.model \
        --torch_python=torch_venv/bin/python \
        --openvino_python=openvino_venv/bin/python

    python -m lab.benchmarks.serving --spm_model_file=30k-clean.model \
        --torch_python=torch_venv/bin/python --mixed

The first times batches of ids without padding, as NumPy arrays; the answer is
the output of the last block and the pooled output, as float32 NumPy arrays. The
second times 64 sentences of 5 to 120 tokens in one call. albert_tf gets texts
(signature `serving_default`), so its time includes the tokenizer. The others
get ids that are ready, padded to the longest.

Each model has random weights of the same sizes. All but Hugging Face's are
written before; that time is not counted.

albert_tf: the SavedModel that albert_tf.export writes, signature `tokens`.
hugging_face: AlbertModel in PyTorch's inference mode; _bfloat16: its weights
converted; _compiled: torch.compile. onnx: what albert_tf.export --format=onnx
writes, in ONNX Runtime. openvino: the same file in OpenVINO, optimized for
latency; _bfloat16: its inference precision. All use their default number of
threads.
"""

import argparse
import concurrent.futures
import functools
import json
import multiprocessing
import pathlib
import random
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab.benchmarks import side_by_side
from lab.benchmarks.side_by_side import Config, Shape

WARM_UP_REQUESTS = 3  # The first one compiles.

# The arrays of a request and of an answer.
INPUTS = ("input_ids", "input_mask", "segment_ids")
OUTPUTS = ("sequence_output", "pooled_output")

NAMES = [
    "albert_tf_float32",
    "albert_tf_bfloat16",
    "hugging_face_float32",
    "hugging_face_bfloat16",
    "hugging_face_float32_compiled",
    "hugging_face_bfloat16_compiled",
    "onnx_float32",
    "onnx_int8",
    "openvino_float32",
    "openvino_bfloat16",
]
SENTENCES_NAME = "sentences.json"
SENTENCES, SHORTEST, LONGEST = 64, 5, 120  # Tokens, special ones included.

Arrays = Mapping[str, Any]  # NumPy arrays by name.
Ask = Callable[[Arrays], Sequence[Any]]  # Returns arrays as `OUTPUTS` says.


# Writing models, each in a process that ends. ---------------------------------


def make_service(
    settings: argparse.Namespace, precision: str
) -> tuple[Any, Any]:
    """Return an encoder of this project as a service, and its vocabulary."""
    import tf_keras as keras

    from albert_tf.model.config import AlbertConfig
    from albert_tf.model.network.encoder import AlbertModel
    from albert_tf.serving.services import encoder_service
    from albert_tf.text import tokenization

    keras.utils.set_random_seed(0)
    config = AlbertConfig.from_json_file(settings.albert_config_file)
    vocabulary = tokenization.VocabularyOptions(settings.spm_model_file)
    tokenizer = tokenization.load(vocabulary)
    encoder = AlbertModel(config, precision=precision)
    length = max(shape.length for shape in settings.shapes)
    service = encoder_service.EncoderService(encoder, tokenizer, length)
    return service, vocabulary


def write_albert_tf(
    settings: argparse.Namespace, precision: str, path: str
) -> None:
    service, _ = make_service(settings, precision)
    from albert_tf.serving.formats import saved_model

    if precision != "float32":
        service.freeze()
    saved_model.save(service, path)


def write_onnx(settings: argparse.Namespace, precision: str, path: str) -> None:
    """Write the folder that albert_tf.export --format=onnx writes."""
    service, vocabulary = make_service(settings, "float32")
    from albert_tf.serving.formats import id_model, onnx_model

    model = id_model.IdModel(service, vocabulary, precision)
    id_model.save(model, path, onnx_model.FORMAT)


def write_sentences(spm_model_file: str, path: str) -> None:
    """Write a JSON file with `texts` and their `ids`, special ones included.

    The texts are random words of one piece each, so that their lengths in
    tokens are those that are drawn: each length is as likely.
    """
    from albert_tf.text import tokenization

    vocabulary = tokenization.VocabularyOptions(spm_model_file)
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


def make_mixed_request(name: str, path: str) -> Arrays:
    """Return a request of all sentences: texts, or padded ids."""
    content = json.loads(pathlib.Path(path).read_text())
    if name.startswith("albert_tf"):
        return {"text": content["texts"]}
    return pad(content["ids"])


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


def model_path(settings: argparse.Namespace) -> str:
    """Return the path of the model that an implementation loads."""
    return f"{settings.folder}/{written_name(settings.serve)}"


def load_saved_model(settings: argparse.Namespace) -> Ask:
    """Load a SavedModel with the signature `tokens`, or one for texts."""
    import tensorflow as tf

    if settings.serve.startswith("albert_tf"):
        import tensorflow_text  # noqa: F401 - operations of the tokenizer.
    model = tf.saved_model.load(model_path(settings))

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

    _, precision, compiled = side_by_side.parse_name(settings.serve)
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
    import onnxruntime

    session = onnxruntime.InferenceSession(f"{model_path(settings)}/model.onnx")
    return functools.partial(session.run, OUTPUTS)


def load_openvino(settings: argparse.Namespace) -> Ask:
    """Load a file of ONNX in OpenVINO."""
    import openvino

    _, precision, _ = side_by_side.parse_name(settings.serve)
    model = openvino.Core().compile_model(
        f"{model_path(settings)}/model.onnx",
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
    "hugging_face": make_hugging_face,
    "onnx": load_onnx,
    "openvino": load_openvino,
}


def build(settings: argparse.Namespace) -> tuple[side_by_side.Turn, str]:
    """Load one implementation's model."""
    implementation, _, _ = side_by_side.parse_name(settings.serve)
    ask = LOADERS[implementation](settings)
    if settings.mixed:
        path = f"{settings.folder}/{SENTENCES_NAME}"
        request = make_mixed_request(settings.serve, path)
        amount = SENTENCES
    else:
        (shape,) = settings.shapes
        config = side_by_side.read_config(settings.albert_config_file)
        request, amount = make_request(config, shape), shape.batch
    for _ in range(WARM_UP_REQUESTS):
        output = ask(request)[0]

    def turn() -> float:
        ask(request)
        return amount

    return turn, f"answers {output.shape} of deviation {output.std():.3f}"


# The parent. ------------------------------------------------------------------


def write_models(settings: argparse.Namespace) -> None:
    """Write all models, each in a process that ends."""
    names = [written_name(name) for name in settings.implementations]
    context = multiprocessing.get_context("spawn")
    for name in dict.fromkeys(filter(None, names)):
        implementation, precision, _ = side_by_side.parse_name(name)
        path = f"{settings.folder}/{name}"
        with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
            write = WRITERS[implementation]
            pool.submit(write, settings, precision, path).result()
        files = pathlib.Path(path).rglob("*")
        mib = sum(f.stat().st_size for f in files if f.is_file()) / 2**20
        print(f"- {name}: written, {mib:.1f} MiB on disk", flush=True)


def main() -> None:
    """Compare; or do the work of one implementation's process."""
    parser = side_by_side.make_parser(
        __doc__, NAMES, "albert_tf_bfloat16", rounds=9
    )
    add = parser.add_argument
    add("--spm_model_file", required=True, help="The vocabulary.")
    add(
        "--albert_config_file",
        default=str(side_by_side.BASE_CONFIG),
        help="The model. Default: base.",
    )
    add(
        "--shapes",
        type=side_by_side.parse_shapes,
        default="128x1,128x8,128x32",
        help="Sequence length x batch. Default: %(default)s",
    )
    add(
        "--mixed",
        action="store_true",
        help="Time sentences of mixed lengths instead of --shapes.",
    )
    add(
        "--openvino_python",
        default=sys.executable,
        help="Python that has openvino; it needs nothing else.",
    )
    add("--folder", help=argparse.SUPPRESS)
    settings = side_by_side.parse(parser, NAMES, build)
    with tempfile.TemporaryDirectory() as settings.folder:
        write_models(settings)
        if settings.mixed:
            path = f"{settings.folder}/{SENTENCES_NAME}"
            write_sentences(settings.spm_model_file, path)
            settings.shapes = settings.shapes[:1]
        for shape in settings.shapes:
            print(f"{SENTENCES} sentences" if settings.mixed else shape)
            side_by_side.compare(
                "lab.benchmarks.serving",
                settings,
                "sequences",
                *(f"--folder={settings.folder}", f"--shapes={shape}"),
            )


if __name__ == "__main__":
    main()
