"""Answer texts with an ONNX or LiteRT model, as its SavedModel does.

    pip install onnxruntime==1.31.1 sentencepiece==0.2.1 numpy
    python answer.py texts.jsonl > answers.jsonl

albert_tf.export copies this file into the folder of the model. It needs neither
TensorFlow nor albert_tf. A LiteRT model needs ai-edge-litert==2.3.0 instead of
onnxruntime; with vocab.txt in the folder, sentencepiece is not needed.

A line, of a file or of standard input, is a JSON object with `text`, for pairs
also `text_pair`, and perhaps `id`. Where `text` is all that is needed, a line
may be the text itself. In Python, with the folder in `sys.path`:

    import answer
    answer.Model().answers([{"text": "It rains."}])
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

BATCH_SIZE = 32
GROUP = 8 * BATCH_SIZE  # Texts that are sorted by length.
# The outputs of the network that the answers of a service are made of.
OUTPUTS = {
    "ClassifierService": ("probabilities", "layers"),
    "MultiLabelService": ("probabilities",),
    "RegressionService": ("logits",),
    "EmbeddingService": ("embedding",),
    "EncoderService": ("sequence_output", "pooled_output"),
    "PretrainedService": ("sequence_output", "pooled_output"),
}
NO_TABLES = "The input is a table. Write one JSON object a line."
LIKE_JSON = re.compile(r"\s*(\{|\[\s*(\{|$))")

Arrays = dict[str, np.ndarray]


class UsageError(Exception):
    """What the user must change."""


class Packed(NamedTuple):
    """A text, or a pair of texts, as the network takes it."""

    ids: list[int]
    front: int  # Before the second text.
    truncated: bool


class Model:
    """The network of a folder with its vocabulary."""

    def __init__(self, folder: str | pathlib.Path | None = None) -> None:
        """Load a folder; the default is that of this file."""
        folder = pathlib.Path(folder or pathlib.Path(__file__).parent)
        self._about = _read_description(folder)
        self._service = self._about["service"]
        self._windows = self._about["options"].get("windows")
        self.names: list[str] = self._about["texts"] or ["text"]
        self._encode = _load_vocabulary(folder, self._about)
        self._run = _load_network(folder, self._about)

    def answers(
        self, entries: Sequence[Mapping[str, str]]
    ) -> list[dict[str, Any]]:
        """Return the answers to objects with the texts of `names`."""
        packed = [
            self._divide(*(self._encode(entry[name]) for name in self.names))
            for entry in entries
        ]
        rows = [*itertools.chain.from_iterable(packed)]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i].ids))
        found: dict[int, Arrays] = {}
        for start in range(0, len(order), BATCH_SIZE):
            some = order[start : start + BATCH_SIZE]
            outputs = self._ask([rows[i] for i in some])
            for place, i in enumerate(some):
                found[i] = {k: v[place] for k, v in outputs.items()}
        numbers = iter(range(len(rows)))
        answers = []
        for several in packed:
            of_text = [found[next(numbers)] for _ in several]
            answer = sorted(self._conclude(of_text).items())
            values = {k: np.asarray(v).tolist() for k, v in answer}
            answers.append({**values, "truncated": several[0].truncated})
        return answers

    def _divide(self, *pieces: list[int]) -> list[Packed]:
        """Pack the texts; a long one may have several windows."""
        if not self._windows:
            return [self._pack(*pieces)]
        (first,) = pieces
        limit = self._about["max_seq_length"] - 2
        step = min(limit, self._about["options"]["window_stride"])
        starts = range(0, max(1, len(first) - limit + step), step)
        return [self._pack(first[i : i + limit]) for i in starts]

    def _pack(self, first: list[int], second: Sequence[int] = ()) -> Packed:
        """Join pieces; of what does not fit, the end of the longer is cut."""
        special = self._about["special_ids"]
        budget = self._about["max_seq_length"] - 2 - bool(second)
        truncated = len(first) + len(second) > budget
        first = first[: budget - min(len(second), budget // 2)]
        second = second[: budget - len(first)]
        front = [special["cls"], *first, special["sep"]]
        back = [*second, special["sep"]] if second else []
        return Packed(front + back, len(front), truncated)

    def _ask(self, batch: Sequence[Packed]) -> Arrays:
        """Return outputs with a row for each sequence."""
        width = max(len(row.ids) for row in batch)
        inputs = {
            name: np.zeros((len(batch), width), np.int32)
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        for i, row in enumerate(batch):
            size = len(row.ids)
            inputs["input_ids"][i, :size] = row.ids
            inputs["input_mask"][i, :size] = 1
            inputs["segment_ids"][i, row.front : size] = 1
        found = self._run(inputs)
        if "sequence_output" in found:
            mask = inputs["input_mask"][..., None].astype(np.float32)
            total = (found.pop("sequence_output") * mask).sum(1)
            found["mean_output"] = total / mask.sum(1)
        return found

    def _conclude(self, several: Sequence[Arrays]) -> dict[str, Any]:
        """Return what is answered, from the outputs for each window."""
        (found, *_), labels = several, self._about["labels"]
        if self._windows:
            logits = np.stack([each["logits"] for each in several])
            logits = logits.max(0) if self._windows == "max" else logits.mean(0)
            found = {"logits": logits}
            if self._service == "ClassifierService":
                powers = np.exp(logits - logits.max())
                found = {"probabilities": powers / powers.sum()}
            elif self._service == "MultiLabelService":
                # As 1 / (1 + exp(-x)), which overflows.
                found = {"probabilities": np.tanh(logits / 2) / 2 + 0.5}
        if self._service == "RegressionService":
            return {"score": found["logits"][0]}
        if "probabilities" not in found:
            return found
        chances = found["probabilities"]
        shared = {"labels": labels, **found}
        if self._service == "ClassifierService":
            return {"label": labels[chances.argmax()], **shared}
        limits = self._about["options"]["thresholds"]
        is_given = chances > np.array([limits[n] for n in labels], np.float32)
        return {"predicted": [*itertools.compress(labels, is_given)], **shared}


def _read_description(folder: pathlib.Path) -> dict[str, Any]:
    """Return model.json; refuse files that are not those it describes."""
    path = folder / "model.json"
    try:
        about = json.loads(path.read_bytes())
        expected = {folder / k: v for k, v in about["sha256"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        expected = {path: ""}
    for path, digest in expected.items():
        with open(path, "rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                raise UsageError(
                    f"{path} is damaged, or not of this model. Copy the folder "
                    "again, or export the model again."
                )
    return about


def _load_vocabulary(
    folder: pathlib.Path, about: Mapping[str, Any]
) -> Callable[[str], list[int]]:
    """Return a function from a text to the ids of its pieces."""
    vocabulary = about["vocabulary"]
    rule = {
        "lower": vocabulary["do_lower_case"],
        "keep_accents": vocabulary["keep_accents"],
    }
    if "vocab_file" in vocabulary:
        import wordpiece_rules as rules

        content = (folder / vocabulary["vocab_file"]).read_bytes()
        lines = content.decode("utf-8-sig").split("\n")
        # An empty line is a piece that no text has.
        pieces = [(line.split() or [" "])[0] for line in lines]
        ids = {piece: id_ for id_, piece in enumerate(pieces)}
        unk_id = about["special_ids"]["unk"]

        def words_to_ids(text: str) -> list[int]:
            words = rules.split_words(rules.clean_text(text, **rule))
            cut = (rules.cut_word(word, ids, unk_id) for word in words)
            return [*itertools.chain.from_iterable(cut)]

        return words_to_ids
    import cleaning
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(folder / vocabulary["spm_model_file"])
    )
    replaced = {int(k): new for k, new in vocabulary["replaced_ids"].items()}

    def text_to_ids(text: str) -> list[int]:
        found = processor.encode(cleaning.preprocess_text(text, **rule))
        return [new for id_ in found for new in replaced.get(id_, [id_])]

    return text_to_ids


def _load_network(
    folder: pathlib.Path, about: Mapping[str, Any]
) -> Callable[[Arrays], Arrays]:
    """Return a function from ids, mask and segments to the outputs needed."""
    function = about["functions"]["tokens"]
    names: Sequence[str] = OUTPUTS[about["service"]]
    if "windows" in about["options"]:
        names = ("logits",)
    names = [name for name in names if name in function["outputs"]]
    if about["format"] != "onnx":
        from ai_edge_litert import interpreter

        model = interpreter.Interpreter(str(folder / "model.tflite"))
        ask = model.get_signature_runner("tokens")

        def run_litert(inputs: Arrays) -> Arrays:
            found = ask(**inputs)
            return {name: found[name] for name in names}

        return run_litert
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3  # Errors only.
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), settings)

    def run_onnx(inputs: Arrays) -> Arrays:
        if "mlm_positions" in function["inputs"]:  # One, which is not read.
            none = np.zeros((len(inputs["input_ids"]), 1), np.int32)
            inputs = {**inputs, "mlm_positions": none}
        return dict(zip(names, session.run(names, inputs), strict=True))

    return run_onnx


def read(
    lines: Iterable[bytes], names: Sequence[str]
) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Yield what tells each line's answer apart, and its texts.

    Where a line is wrong there are no texts, and the first has an `error`.
    """
    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
            fields = line.decode(errors="replace").rstrip("\r\n").split("\t")
            if {*names} <= {*fields}:
                raise UsageError(NO_TABLES)
        if not line.decode(errors="replace").strip():
            continue
        key: dict[str, Any] = {}
        try:
            entry = _parse(line, names)
            key = {"id": entry["id"]} if "id" in entry else {}
            for name in names:
                if not isinstance(entry.get(name), str):
                    raise ValueError(f"{name!r} is missing, or is no text")
        except (ValueError, RecursionError) as error:
            message = f"line {number}: {error}"
            yield {**key, "line": number, "error": message}, {}
        else:
            texts = {name: entry[name] for name in names}
            yield key or {"line": number}, texts


def _parse(line: bytes, names: Sequence[str]) -> dict[str, Any]:
    text = line.decode().removesuffix("\n").removesuffix("\r")
    if names == ["text"] and not LIKE_JSON.match(text):
        return {"text": text}
    value = json.loads(text)
    # Refuses NaN, and "\ud800", half of a character.
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    if not isinstance(value, dict):
        raise ValueError("this is no JSON object")
    return value


def answer_lines(
    model: Model, lines: Iterable[bytes], group: int = GROUP
) -> Iterator[dict[str, Any]]:
    """Yield the answer to each line that is not empty, in their order."""
    entries = read(lines, model.names)
    while some := list(itertools.islice(entries, group)):
        found = iter(model.answers([texts for _, texts in some if texts]))
        for key, texts in some:
            yield {**key, **next(found)} if texts else key


def main() -> int:
    """Answer a file, or standard input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", nargs="?", help="Default: standard input.")
    path = parser.parse_args().file
    if path and path.lower().endswith((".tsv", ".csv")):
        parser.error(f"{path}: {NO_TABLES}")
    source = contextlib.nullcontext(sys.stdin.buffer)
    good = bad = 0
    try:
        with open(path, "rb") if path else source as lines:
            # Typed lines are answered one by one.
            group = 1 if lines.isatty() else GROUP
            for answer in answer_lines(Model(), lines, group):
                bad += "error" in answer
                good += "error" not in answer
                print(json.dumps(answer, ensure_ascii=False), flush=group == 1)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ModuleNotFoundError as error:
        parser.error(f"{error}. The first lines of answer.py say what to do.")
    except (UsageError, OSError) as error:
        parser.error(str(error))
    if bad:
        print(f"{bad} of {good + bad} answers are errors.", file=sys.stderr)
    return 2 if bad and not good else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.exit(main())
