"""Answer texts with an ONNX or LiteRT model, as its SavedModel does.

    pip install onnxruntime==1.31.1 sentencepiece==0.2.1 numpy
    python answer.py texts.jsonl > answers.jsonl

albert_tf.export copies this file into the folder of the model. It needs neither
TensorFlow nor albert_tf. A LiteRT model needs ai-edge-litert==2.3.0 instead of
onnxruntime; with vocab.txt in the folder, sentencepiece is not needed.

A line, of a file or of standard input, is a JSON object with `text`, for pairs
also `text_pair`, and perhaps `id`. SQuAD's models take `question` and `context`
instead, RACE's `article`, `question` and a list of `options`. Where `text` is
all that is needed, a line may be the text itself; models of tags also take
`words`, a list, and those of vectors perhaps `prompt`, the name of one.
In Python, with the folder in `sys.path`:

    import answer
    answer.Model().answers([{"text": "It rains."}])
"""

import argparse
import contextlib
import functools
import hashlib
import importlib
import itertools
import json
import os
import pathlib
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

BATCH_SIZE = 32
SMALL_BATCH = 8  # SQuAD 2.0 pairs every position with each of the best starts.
GROUP = 8 * BATCH_SIZE  # Texts that are sorted by length.
NO_TABLES = "The input is a table. Write one JSON object a line."
# The first row of a table whose columns are not separated by tabs.
OTHER_HEADER = re.compile(r'"?\w+"?(\s*[,;|]\s*"?\w+"?)+')
LIKE_JSON = re.compile(r"\s*(\{|\[\s*(\{|$))")

Arrays = dict[str, np.ndarray]
# One or two texts in pieces.
Pieces = Sequence[list[int]]


class UsageError(Exception):
    """What the user must change."""


class Packed(NamedTuple):
    """A text, or a pair of texts, as the network takes it."""

    ids: list[int]
    front: int  # Before the second text.


class Model:
    """The network of a folder with its vocabulary."""

    def __init__(self, folder: str | pathlib.Path | None = None) -> None:
        """Load a folder; the default is that of this file."""
        folder = pathlib.Path(folder or pathlib.Path(__file__).parent)
        self._about = about = _read_description(folder)
        self._count = about["options"].get("num_options", 1)
        decoder = about["decoder"]
        kind: Any = Texts
        if module := decoder["module"]:
            kind = importlib.import_module(module).Decoder
        # The texts of a request: 1, or a list of this length at most; 0, a text
        # or a list of words.
        usual = {
            k: 1 if k != "options" else self._count for k in about["texts"]
        }
        self.names = getattr(kind, "names", usual)
        is_wordpiece = "vocab_file" in about["vocabulary"]
        tokenizer = WordPiece if is_wordpiece else SentencePiece
        self._task = kind(about, tokenizer(folder, about))
        self._inputs = about["functions"]["tokens"]["inputs"]
        self._run = _load_network(folder, about, decoder["outputs"])

    def answers(
        self, entries: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the answers to objects with the texts of `names`.

        Raises:
            ValueError: A text is too long; see `check`.
        """
        for entry in entries:
            self.check(entry)
        laid = [self._task.lay_out(*self._texts(entry)) for entry in entries]
        rows = [self._pack(*row) for several, _ in laid for row in several]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i].ids))
        found: dict[int, Arrays] = {}
        size = SMALL_BATCH if "p_mask" in self._inputs else BATCH_SIZE
        for start in range(0, len(order), size):
            some = order[start : start + size]
            outputs = self._ask([rows[i] for i in some])
            for place, i in enumerate(some):
                found[i] = {k: v[place] for k, v in outputs.items()}
        numbers = iter(range(len(rows)))
        answers = []
        for several, rest in laid:
            of_entry = [found[next(numbers)] for _ in several]
            answer = sorted(self._task.conclude(rest, of_entry).items())
            answers.append({name: _plain(value) for name, value in answer})
        return answers

    def check(self, entry: Mapping[str, Any]) -> None:
        """Refuse an unknown prompt, and a text with too many windows."""
        self._texts(entry)
        if name := self._about["read_whole"]:
            import overlaps

            overlaps.require_short("".join(entry[name]))  # Or words.

    def _texts(self, entry: Mapping[str, Any]) -> list[Any]:
        """Return the texts of `names`, the first one behind its prompt."""
        texts = [entry[name] for name in self.names]
        options = self._about["options"]
        if prompts := options.get("prompts"):
            name = entry.get("prompt", options["default_prompt_name"]) or ""
            if name not in ["", *prompts]:
                raise ValueError(
                    f"'prompt' must be one of {', '.join(prompts)}"
                )
            if not name and "prompt" not in entry:  # Said once.
                message = f"No 'prompt' is put before texts, of {[*prompts]}."
                warnings.warn(message, stacklevel=1)
            texts[0] = prompts.get(name, "") + texts[0]
        return texts

    def _pack(self, first: list[int], second: Sequence[int] = ()) -> Packed:
        """Join pieces; of what does not fit, the end of the longer is cut."""
        special = self._about["special_ids"]
        budget = self._about["max_seq_length"] - 2 - bool(second)
        first = first[: budget - min(len(second), budget // 2)]
        second = second[: budget - len(first)]
        front = [special["cls"], *first, special["sep"]]
        back = [*second, special["sep"]] if second else []
        return Packed(front + back, len(front))

    def _ask(self, batch: Sequence[Packed]) -> Arrays:
        """Return outputs with a row for each sequence."""
        width = max(len(row.ids) for row in batch)
        # Options are asked some at a time; what fills these up is not read.
        shape = len(batch) + -len(batch) % self._count, width
        inputs = {name: np.zeros(shape, np.int32) for name in self._inputs}
        for i, row in enumerate(batch):
            size = len(row.ids)
            inputs["input_ids"][i, :size] = row.ids
            inputs["input_mask"][i, :size] = 1
            inputs["segment_ids"][i, row.front : size] = 1
            if "p_mask" in inputs:
                inputs["p_mask"][i, 1:] = 1
                inputs["p_mask"][i, row.front : size - 1] = 0
        if "mlm_positions" in inputs:  # One, which is not read.
            inputs["mlm_positions"] = inputs["mlm_positions"][:, :1]
        if self._count > 1:
            split = -1, self._count, width
            inputs = {k: v.reshape(split) for k, v in inputs.items()}
        found = self._run(inputs)
        if self._count > 1:
            found = {k: v.reshape(-1) for k, v in found.items()}
        if "sequence_output" in found:
            mask = inputs["input_mask"][..., None].astype(np.float32)
            total = (found.pop("sequence_output") * mask).sum(1)
            found["mean_output"] = total / mask.sum(1)
        return found


class Texts:
    """Gives a text, or a pair of texts, what the network says about it."""

    def __init__(self, about: Mapping[str, Any], tokenizer: Any) -> None:
        self._longest, self._encode = about["max_seq_length"], tokenizer.encode

    def lay_out(self, *texts: str) -> tuple[list[Pieces], bool]:
        """Return the pieces of the texts, and whether some are cut."""
        pieces = [self._encode(text, self._longest) for text in texts]
        limit = self._longest - 2 - any(pieces[1:])
        return [pieces], sum(map(len, pieces)) > limit

    def conclude(
        self, truncated: bool, outputs: Sequence[Arrays]
    ) -> dict[str, Any]:
        """Return what is answered."""
        return {**outputs[0], "truncated": truncated}


class WordPiece:
    """A vocabulary and how texts are cut by it."""

    def __init__(self, folder: pathlib.Path, about: Mapping[str, Any]) -> None:
        import wordpiece_rules

        self._rules = wordpiece_rules
        content = (folder / about["vocabulary"]["vocab_file"]).read_bytes()
        lines = content.decode("utf-8-sig").split("\n")
        # An empty line is a piece that no text has.
        self._pieces = [(line.split() or [" "])[0] for line in lines]
        self._unk_id = about["special_ids"]["unk"]
        self._cut = functools.partial(
            wordpiece_rules.cut_word,
            ids={piece: id_ for id_, piece in enumerate(self._pieces)},
            unk_id=self._unk_id,
            longest=about["vocabulary"]["longest_word"],
        )
        self._folding = _folding(about)

    def clean(self, text: str) -> str:
        """Return what the options of a question are filled into."""
        return text

    def encode(self, text: str, enough: int | None = None) -> list[int]:
        """Return ids; `enough` of them if others are not read."""
        cleaned = self._rules.clean_text(text, **self._folding)
        found: list[int] = []
        for word in self._rules.split_words(cleaned):
            found += self._cut(word)
            if enough is not None and len(found) >= enough:
                break
        return found

    def encode_with_offsets(self, text: str) -> list[np.ndarray]:
        """Return ids, and where each piece starts and ends in the text."""
        found = self._rules.encode_with_offsets(
            text,
            self._pieces,
            cut=self._cut,
            unk_id=self._unk_id,
            **self._folding,
        )
        return [np.array(values, np.int32) for values in found]


class SentencePiece:
    """The same for a model of SentencePiece."""

    def __init__(self, folder: pathlib.Path, about: Mapping[str, Any]) -> None:
        import cleaning
        import sentencepiece

        vocabulary = about["vocabulary"]
        self._processor = sentencepiece.SentencePieceProcessor(
            model_file=str(folder / vocabulary["spm_model_file"])
        )
        # What is put for some pieces, and how many characters it spans.
        self._new_ids, self._new_lengths = (
            {int(id_): new for id_, new in vocabulary.get(name, {}).items()}
            for name in ("replaced_ids", "replaced_lengths")
        )
        self._folding = _folding(about)
        self._cleaning = cleaning

    def clean(self, text: str) -> str:
        return self._cleaning.preprocess_text(text, **self._folding)

    def encode(self, text: str, enough: int | None = None) -> list[int]:
        return self._cleaning.encode(self._encode, text, enough)

    def _encode(self, part: str) -> list[int]:
        ids = self._processor.encode(self.clean(part))
        return [new for id_ in ids for new in self._new_ids.get(id_, [id_])]

    @functools.cached_property
    def encode_with_offsets(self) -> Callable[[str], Sequence[np.ndarray]]:
        import offsets

        return offsets.Aligner(
            self._processor, self._new_ids, self._new_lengths, **self._folding
        ).encode


def _folding(about: Mapping[str, Any]) -> dict[str, bool]:
    rule = about["vocabulary"]
    return {
        "lower": rule["do_lower_case"],
        "keep_accents": rule["keep_accents"],
    }


def _plain(value: Any) -> Any:
    is_array = isinstance(value, np.ndarray | np.generic)
    return value.tolist() if is_array else value


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


def _load_network(
    folder: pathlib.Path, about: Mapping[str, Any], outputs: Sequence[str]
) -> Callable[[Arrays], Arrays]:
    """Return a function from ids, mask and segments to the outputs needed."""
    known = about["functions"]["tokens"]["outputs"]
    names = [name for name in outputs if name in known]
    if about["format"] != "onnx":
        from ai_edge_litert import interpreter

        model = interpreter.Interpreter(str(folder / "model.tflite"))
        ask = model.get_signature_runner("tokens")

        def run_litert(inputs: Arrays) -> Arrays:
            found = ask(**inputs)
            return {name: found[name] for name in names}

        return run_litert
    session = open_session(folder / "model.onnx")

    def run_onnx(inputs: Arrays) -> Arrays:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return run_onnx


def open_session(path: str | pathlib.Path) -> Any:
    """Return the network in an ONNX file; only errors are logged."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    settings.intra_op_num_threads = _threads()
    return onnxruntime.InferenceSession(str(path), settings)


def _threads() -> int:
    """Return how many ONNX Runtime may use; 0: it chooses.

    It counts the cores of the machine. Where this process may use fewer, its
    threads wait for each other: 17 instead of 10 ms for an answer of SQuAD on
    one of two cores.
    """
    if not hasattr(os, "sched_getaffinity"):
        return 0
    allowed = len(os.sched_getaffinity(0))
    return allowed if allowed < (os.cpu_count() or 1) else 0


def read(
    lines: Iterable[bytes],
    names: Mapping[str, int],
    check: Callable[[Mapping[str, Any]], None],
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield what tells each line's answer apart, and its texts.

    Where a line is wrong there are no texts, and the first has an `error`.

    Args:
        names: Of the texts; see `Model.names`.
        check: Raises a ValueError for texts that are not answered.
    """
    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
            _refuse_table(line.decode(errors="replace").rstrip("\r\n"), names)
        if b"\0" in line:
            raise UsageError(f"Line {number} is not text: it has zero bytes.")
        if not line.decode(errors="replace").strip():
            continue
        key: dict[str, Any] = {}
        try:
            entry = _parse(line, names)
            key = {"id": entry["id"]} if "id" in entry else {}
            if names.get("text") == 0 and "words" in entry:
                _check("words", entry["words"], 0)
                entry["text"] = entry["words"]
            else:
                for name, count in names.items():
                    _check(name, entry.get(name), count or 1)
            check(entry)
        except (ValueError, RecursionError) as error:
            message = f"line {number}: {error}"
            yield {**key, "line": number, "error": message}, {}
        else:
            read_names = {*names, "prompt"} & {*entry}
            texts = {name: entry[name] for name in read_names}
            yield key or {"line": number}, texts


def _refuse_table(first: str, names: Mapping[str, int]) -> None:
    fields = first.split("\t")
    if OTHER_HEADER.fullmatch(first):
        fields = re.findall(r"\w+", first)
    is_row = "\t" in first and not LIKE_JSON.match(first)
    if is_row or {*names} <= {*fields}:
        raise UsageError(NO_TABLES)


def _check(name: str, value: Any, count: int) -> None:
    is_list = isinstance(value, list)
    if count == 0:
        if not is_list or not all(isinstance(x, str) and x for x in value):
            raise ValueError(f"{name!r} must be a list of texts, none empty")
    elif count == 1:
        if not isinstance(value, str):
            raise ValueError(f"{name!r} is missing, or is no text")
    elif (
        not is_list
        or not all(isinstance(item, str) for item in value)
        or len(value) > count
        or sum(map(bool, value)) < 2
    ):
        raise ValueError(f"{name!r} must be a list of 2 to {count} texts")


def _parse(line: bytes, names: Mapping[str, int]) -> dict[str, Any]:
    text = line.decode().removesuffix("\n").removesuffix("\r")
    if [*names] == ["text"] and not LIKE_JSON.match(text):
        return {"text": text}
    value = json.loads(text, object_pairs_hook=_make_object)
    # Refuses NaN, and "\ud800", half of a character.
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    if not isinstance(value, dict):
        raise ValueError("this is no JSON object")
    return value


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key is there twice")
    return made


def answer_lines(
    model: Model, lines: Iterable[bytes], group: int = GROUP
) -> Iterator[dict[str, Any]]:
    """Yield the answer to each line that is not empty, in their order."""
    entries = read(lines, model.names, model.check)
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
    if not (sys.stdin and sys.stdout):
        parser.error("Standard input or output is closed. Leave both open.")
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
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
    if not good + bad:
        parser.error(f"{path or 'standard input'} has no texts.")
    if bad:
        print(f"{bad} of {good + bad} answers are errors.", file=sys.stderr)
    return 2 if bad and not good else 0


if __name__ == "__main__":
    sys.exit(main())
