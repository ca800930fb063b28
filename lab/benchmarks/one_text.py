r"""Time one text at a time: exports for ONNX Runtime beside Model Garden.

    python -m lab.benchmarks.one_text served/whole served/adaptive \
        --albert_config_file=runs/base/albert_config.json --text_file=texts.txt

The folders are what albert_tf.export --format=onnx writes for classifiers. The
peer is Model Garden's classifier of that shape, with random weights: a
SavedModel in float32. All get ids, each text in a request of its own. The texts
stand one a line; without them there are 40 random sequences of --length tokens.
"""

import argparse
import json
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from lab.benchmarks import side_by_side

PEER = "model_garden"
NUM_RANDOM = 40

Ask = Callable[[Any], dict[str, Any]]  # Of ids [1, S].


def make_requests(settings: argparse.Namespace) -> list[Any]:
    """Return ids int32 [1, S] of each text, or random ones."""
    import numpy as np

    config = side_by_side.read_config(settings.albert_config_file)
    if not settings.text_file:
        generator = np.random.default_rng(0)
        shape = NUM_RANDOM, 1, settings.length
        ids = generator.integers(5, config["vocab_size"], shape)
        return list(ids.astype(np.int32))
    from albert_tf.text import tokenization

    folder = pathlib.Path(settings.folders[0])
    about = json.loads((folder / "model.json").read_text())
    kinds = {"vocab_file", "spm_model_file"} & about["vocabulary"].keys()
    files = {kind: str(folder / about["vocabulary"][kind]) for kind in kinds}
    tokenizer = tokenization.load(tokenization.VocabularyOptions(**files))
    texts = pathlib.Path(settings.text_file).read_text().splitlines()
    rows = tokenizer.encode_batch(texts[: settings.num_texts])
    most = about["max_seq_length"] - 2
    ends = tokenizer.cls_id, tokenizer.sep_id
    return [
        np.array([[ends[0], *row[:most], ends[1]]], np.int32) for row in rows
    ]


def make_peer(settings: argparse.Namespace) -> Ask:
    import tensorflow as tf
    from official.nlp.modeling import models

    from lab.benchmarks import pretraining_step

    config = side_by_side.read_config(settings.albert_config_file)
    whole = pretraining_step.make_model_garden(config, "float32")
    model = models.BertClassifier(whole.encoder_network, num_classes=2)
    spec = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[spec] * 3)
    def answer(
        input_word_ids: tf.Tensor,
        input_mask: tf.Tensor,
        input_type_ids: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        values = input_word_ids, input_mask, input_type_ids
        return {"logits": model(values, training=False)}

    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(model, folder, signatures={"answer": answer})
        loaded = tf.saved_model.load(folder)

    def ask(ids: Any) -> dict[str, Any]:
        ids = tf.constant(ids)
        outputs = loaded.signatures["answer"](
            input_word_ids=ids,
            input_mask=tf.ones_like(ids),
            input_type_ids=tf.zeros_like(ids),
        )
        return {"logits": outputs["logits"].numpy()}

    return ask


def load(folder: str) -> Ask:
    import numpy as np

    from albert_tf.serving.formats import onnx_int8

    session = onnx_int8.open_session(f"{folder}/model.onnx")
    outputs = [output.name for output in session.get_outputs()]

    def ask(ids: Any) -> dict[str, Any]:
        inputs = {
            "input_ids": ids,
            "input_mask": np.ones_like(ids),
            "segment_ids": np.zeros_like(ids),
        }
        return dict(zip(outputs, session.run(None, inputs), strict=True))

    return ask


def build(settings: argparse.Namespace) -> tuple[side_by_side.Turn, str]:
    name = settings.serve
    ask = make_peer(settings) if name == PEER else load(name)
    requests = make_requests(settings)
    found = [ask(ids) for ids in requests]
    used = [int(answer["layers"][0]) for answer in found if "layers" in answer]

    def turn() -> float:
        for ids in requests:
            ask(ids)
        return len(requests)

    tokens = sum(ids.size for ids in requests) / len(requests)
    mean = f", {sum(used) / len(used):.2f} layers" if used else ""
    return turn, f"{len(requests)} texts of {tokens:.1f} tokens{mean}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--albert_config_file", required=True)
    parser.add_argument("--text_file")
    parser.add_argument("--num_texts", type=int, default=120)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    settings = parser.parse_args(arguments)
    settings.base = PEER
    settings.implementations = [PEER, *settings.folders]
    if settings.serve:
        side_by_side.serve(lambda: build(settings))
    else:
        side_by_side.compare("lab.benchmarks.one_text", settings, "texts")


if __name__ == "__main__":
    main()
