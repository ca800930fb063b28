"""Known bad inputs: a command, one changed file or option, and its message.

`changes` replace options that work. `files` are written into the current
folder first; `{here}/NAME` is the path of one. `says` lists what the error
message must contain; a case without it must succeed.
"""

import gzip
import io
import json
import struct
import tarfile
from collections.abc import Callable
from typing import NamedTuple

import pyarrow

from tests.conftest import tiny_config
from tests.hostile import tables


class Case(NamedTuple):
    """One bad input; see above."""

    command: str
    changes: dict[str, object]
    says: tuple[str, ...] = ()
    files: dict[str, bytes] = {}


def config(**changes) -> dict[str, bytes]:
    """An architecture with other values; None takes a key out."""
    values = {**json.loads(tiny_config().to_json()), **changes}
    kept = {k: v for k, v in values.items() if v is not None}
    return {"c.json": json.dumps(kept).encode()}


def tar(*members: tarfile.TarInfo) -> bytes:
    """An archive of members without content."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for member in members:
            archive.addfile(member)
    return packed.getvalue()


def member(name: str, kind: bytes, to: str = "") -> tarfile.TarInfo:
    """A member of an archive that is no file."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def article(**changes) -> bytes:
    """One article of RACE with other values."""
    values = {
        "id": "1.txt",
        "article": "Ivo slept.",
        "questions": ["Who slept?"],
        "options": [["Ivo", "Mara", "Eva", "Jan"]],
        "answers": ["A"],
    }
    return json.dumps({**values, **changes}).encode()


def questions(**changes) -> bytes:
    """A file of SQuAD with one question, with other values."""
    entry = {
        "id": "1",
        "question": "Who slept?",
        "answers": [{"text": "Ivo", "answer_start": 0}],
        **changes,
    }
    kept = {k: v for k, v in entry.items() if v is not None}
    paragraph = {"context": "Ivo slept.", "qas": [kept]}
    return json.dumps({"data": [{"paragraphs": [paragraph]}]}).encode()


def safetensors(header: object, length: int | None = None) -> bytes:
    """A file of tensors whose header says something else than is there."""
    written = json.dumps(header).encode()
    size = len(written) if length is None else length
    return struct.pack("<Q", size) + written + bytes(16)


def hugging_face(header: object, length: int | None = None) -> dict:
    """A folder of Hugging Face with such a file."""
    names = {"model_type": "albert", "vocab_size": 400}
    return {
        "hf/config.json": json.dumps(names).encode(),
        "hf/model.safetensors": safetensors(header, length),
    }


DEEP = b"[" * 100_000
DIGITS = b'{"id": ' + b"9" * 6000 + b', "text": "a", "text_pair": "b"}\n'
GOOD = b'{"text": "Ivo slept.", "text_pair": "Ivo slept."}\n'
HALF = b'{"id": "\\ud83d", "text": "a", "text_pair": "b"}\n'
RTE = b"index\tsentence1\tsentence2\tlabel\n"
VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n"
TENSOR = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}

CORPUS, RECORDS = "create_pretraining_data", "run_pretraining"
CLASSIFIER, SQUAD, RACE = "run_classifier", "run_squad", "run_race"
FEATURES, PREDICT, CONVERT = (
    "create_finetuning_data",
    "predict",
    "convert_checkpoint",
)


def text_file(content: bytes, *says: str, command: str = CORPUS, **changes):
    """A text that is read as a corpus."""
    return Case(
        command, {"input_file": "{here}/t", **changes}, says, {"t": content}
    )


def json_file(content: bytes, *says: str, **changes):
    """Lines of JSON that are read as a corpus."""
    return text_file(content, *says, input_format="jsonl", **changes)


def table(
    columns: object, *says: str, write: Callable = tables.parquet, **changes
):
    """A table that is read as a corpus; or bytes that are none."""
    content = columns
    if isinstance(columns, dict):
        columns = pyarrow.table(columns)
    if isinstance(columns, pyarrow.Table):
        content = write(columns)
    values = {"input_file": "{here}/t.parquet", "input_format": "parquet"}
    files = {"t.parquet": content}
    return Case(CORPUS, {**values, **changes}, says, files)


def architecture(*says: str, **changes):
    """An architecture that is read by training."""
    where = {"albert_config_file": "{here}/c.json"}
    return Case(RECORDS, where, says, config(**changes))


def glue(content: bytes, *says: str, task: str = "rte"):
    """A file that is read as the training split of a task."""
    changes = {
        "input_file": "{here}/train.tsv",
        "task_name": task,
        "is_training": True,
    }
    return Case(FEATURES, changes, says, {"train.tsv": content})


def squad(content: bytes, *says: str, **changes):
    """A file that is read as SQuAD."""
    values = {
        "input_file": "{here}/train.json",
        "task_name": "squad",
        "is_training": True,
        "max_query_length": 8,
        "doc_stride": 8,
    }
    files = {"train.json": content}
    return Case(FEATURES, {**values, **changes}, says, files)


def race(content: bytes, *says: str):
    """A file that is read as RACE."""
    changes = {
        "input_file": "{here}/train",
        "task_name": "race",
        "is_training": True,
        "max_qa_length": 16,
    }
    names = ("train/middle/1.txt", "train/high/1.txt")
    return Case(FEATURES, changes, says, dict.fromkeys(names, content))


def own(content: bytes, *says: str, name: str = "p.jsonl", **changes):
    """A file of a user that is answered."""
    where = {"input_file": "{here}/" + name, **changes}
    return Case(PREDICT, where, says, {name: content})


def vocabulary(content: bytes, *says: str):
    """A WordPiece vocabulary that the writer reads."""
    changes = {"vocab_file": "{here}/v.txt", "spm_model_file": None}
    return Case(CORPUS, changes, says, {"v.txt": content})


def tensors(header: object, *says: str, length: int | None = None):
    """A folder of Hugging Face that is converted."""
    changes = {"from": "{here}/hf", "format": "tf1"}
    return Case(CONVERT, changes, says, hugging_face(header, length))


def number(command: str, option: str, value: object):
    """A number that is no sensible one."""
    return Case(command, {option: value}, (f"--{option}={value}",))


CASES = {
    # Corpora.
    "a text of one word": text_file(b"a", "0 instances"),
    "half a megabyte of zeros": text_file(bytes(500_000), "{here}/t"),
    "line of 50 MB": text_file(b"a" * 50_000_000, "{here}/t", "line 1"),
    "second line is not UTF-8": text_file(b"a\n\xff\n", "{here}/t", "line 2"),
    "UTF-16 text": text_file("a b\n".encode("utf-16"), "{here}/t", "line 1"),
    "text that is packed": text_file(gzip.compress(b"a\n"), "{here}/t"),
    "third line is no JSON": json_file(
        b'{"text": "a"}\n\n{\n', "{here}/t", "line 3"
    ),
    "JSON without the field": json_file(b'{"a": "b"}\n', "line 1", "text"),
    "JSON field is a list": json_file(b'{"text": []}\n', "line 1", "text"),
    "JSON of half a character": json_file(b'{"text": "\\ud83d"}\n', "line 1"),
    "JSON of 100,000 brackets": json_file(DEEP, "{here}/t", "line 1"),
    "JSON of 6,000 digits": json_file(b'{"text": ' + b"9" * 6000, "line 1"),
    "no JSON field": json_file(
        b'{"text": "a"}\n', "--json_field", json_field=""
    ),
    # Tables.
    "table without the column": table(
        {"body": ["Ivo slept."]},
        *("--text_column=text", "{here}/t.parquet", "columns are: body"),
    ),
    "table of numbers": table({"text": [1, 2]}, "--text_column", "holds int64"),
    "table of lists": table(
        {"text": [["Ivo slept."]]}, "--text_column", "holds list<"
    ),
    "table of objects": table(
        {"text": [{"a": "Ivo slept."}]}, "--text_column", "holds struct<"
    ),
    "table of bytes": table({"text": [b"Ivo"]}, "--text_column", "binary"),
    "column of a table twice": table(
        pyarrow.table([["a"], ["b"]], names=["text", "text"]), "names 2 columns"
    ),
    "row of a table without text": table(
        {"text": ["Ivo slept.", None]}, "{here}/t.parquet", "row 2"
    ),
    "table of nothing but null": table(
        {"text": [None]}, "--text_column", "holds null"
    ),
    "table without rows": table(
        {"text": pyarrow.array([], pyarrow.string())}, "--input_file"
    ),
    "table without columns": table({}, "--text_column"),
    "no name of a column": table(
        {"text": ["Ivo slept."]}, "--text_column", text_column=""
    ),
    "row of 50 MB": table(
        {"text": ["a" * 50_000_000]}, "{here}/t.parquet", "1"
    ),
    "table of no bytes": table(b"", "{here}/t.parquet"),
    "text that is called a table": table(b"Ivo slept.\n", "{here}/t.parquet"),
    "Arrow that is called Parquet": table(
        {"text": ["a"]}, "{here}/t.parquet", write=tables.arrow
    ),
    "Parquet that is read as Arrow": table(
        {"text": ["a"]}, "{here}/t.parquet", input_format="arrow"
    ),
    "Parquet that is read as text": table(
        {"text": ["a"]}, "--input_format=parquet", input_format="lines"
    ),
    "archive as corpus": Case(
        CORPUS, {"input_file": "{here}/a.zip"}, ("a.zip",), {"a.zip": b"PK"}
    ),
    "gz that is none": Case(
        CORPUS, {"input_file": "{here}/a.gz"}, ("a.gz",), {"a.gz": b"text\n"}
    ),
    "stdin beside a file": Case(
        CORPUS, {"input_file": "-,{inputs}/text.txt"}, ("--input_file",)
    ),
    "pipe as corpus": Case(CORPUS, {"input_file": "{here}/pipe"}, ("pipe",)),
    "device as corpus": Case(CORPUS, {"input_file": "{here}/zero"}, ("zero",)),
    "output is the input": text_file(
        b"a\n", "--output_file", output_file="{here}/t"
    ),
    "sentences over the input": text_file(
        b"A b.\n",
        "--output_file",
        command="split_sentences",
        output_file="{here}/t",
        overwrite=True,
    ),
    "tar with a link to nothing": Case(
        "split_sentences",
        {"input_file": "{here}/a.tar.gz"},
        ("a.tar.gz",),
        {"a.tar.gz": tar(member("a", tarfile.SYMTYPE, "nowhere"))},
    ),
    "tar with a link outside": Case(
        "split_sentences",
        {"input_file": "{here}/a.tar.gz"},
        ("a.tar.gz",),
        {"a.tar.gz": tar(member("a", tarfile.LNKTYPE, "../../etc/passwd"))},
    ),
    "tar with a pipe and a device": Case(
        "split_sentences",
        {"input_file": "{here}/a.tar.gz"},
        ("--input_file",),
        {
            "a.tar.gz": tar(
                member("a", tarfile.FIFOTYPE), member("b", tarfile.CHRTYPE)
            )
        },
    ),
    "no text to learn pieces from": text_file(
        b"\n \n", "--input_file", command="train_sentencepiece"
    ),
    # Vocabularies.
    "vocabulary with a piece twice": vocabulary(VOCABULARY + b"a\n", "v.txt"),
    "vocabulary without [CLS]": vocabulary(b"[PAD]\n[UNK]\na\n", "[CLS]"),
    "vocabulary with empty lines": vocabulary(VOCABULARY + b"\n\nc\n", "v.txt"),
    "vocabulary of JSON": vocabulary(b'{"[CLS]": 1}', "v.txt"),
    # Architectures.
    "a thousand million layers": architecture(
        "num_hidden_layers", num_hidden_layers=10**9
    ),
    "no vocab_size": architecture("vocab_size", vocab_size=None),
    "vocab_size of the other sort": architecture(
        "vocab_size", vocab_size="400"
    ),
    "hidden_size of true": architecture("hidden_size", hidden_size=True),
    "dropout that is no number": architecture(
        "c.json", "NaN", hidden_dropout_prob=float("nan")
    ),
    "hidden_size without end": architecture("hidden_size", hidden_size=10**30),
    "no heads": architecture("num_attention_heads", num_attention_heads=0),
    "unknown key": architecture("hiden_size", hiden_size=16),
    "activation that is none": architecture("hidden_act", hidden_act=["gelu"]),
    "deep architecture": Case(
        RECORDS,
        {"albert_config_file": "{here}/c.json"},
        ("c.json",),
        {"c.json": DEEP},
    ),
    # Numbers on the command line.
    "batch below nothing": number(RECORDS, "train_batch_size", -4),
    "no batch": number(RECORDS, "train_batch_size", 0),
    "rate without end": number(RECORDS, "learning_rate", "inf"),
    "rate that is none": number(RECORDS, "learning_rate", "nan"),
    "n-grams of a million": number(CORPUS, "ngram", 1_000_000),
    "workers without end": number(CORPUS, "num_workers", 100_000),
    "workers below nothing": number(CORPUS, "num_workers", -1),
    "shards without end": number(CORPUS, "num_shards", 10**15),
    "steps below nothing": number(RECORDS, "num_train_steps", -1),
    "no length": number(FEATURES, "max_seq_length", 0),
    "threshold that is none": number(SQUAD, "null_score_diff_threshold", "nan"),
    "port out of range": number("demo", "port", 70_000),
    "folder of a run without a name": Case(
        "export", {"run_dir": ""}, ("--run_dir",)
    ),
    "a batch that no machine holds": Case(
        RECORDS,
        {"train_batch_size": 10**6},
        ("--train_batch_size=1000000",),
    ),
    # Tables of tasks.
    "row of three columns": glue(RTE + b"0\ta\tb\n", "train.tsv, line 2"),
    "unknown label": glue(RTE + b"0\ta\tb\tperhaps\n", "line 2", "perhaps"),
    "table without a header": glue(b"0\ta\tb\tentailment\n", "line 1"),
    "table of a header only": glue(RTE, "train.tsv"),
    "score above the highest": glue(
        b"\t".join(b"0 1 2 3 4 5 6 7 8 score".split())
        + b"\n"
        + b"\t".join(b"0 1 2 3 4 5 6 a b 5.1".split())
        + b"\n",
        "line 2",
        "5.1",
        task="sts-b",
    ),
    "unknown task": glue(RTE, "--task_name=nothing", task="nothing"),
    # SQuAD and RACE.
    "whole number as id": squad(questions(id=7)),
    "half a character as id": squad(questions(id="\ud83d"), "train.json"),
    "list as id": squad(questions(id=[]), "train.json", "'id'"),
    "NaN as id": squad(questions(id=float("nan")), "train.json"),
    "answer_start of true": squad(
        questions(answers=[{"text": "Ivo", "answer_start": True}]),
        "answer_start",
    ),
    "no question": squad(questions(question=None), "question"),
    "deep SQuAD": squad(DEEP, "train.json"),
    "window without a step": squad(questions(), "--doc_stride=0", doc_stride=0),
    "options that are numbers": race(
        article(options=[[1, 2, 3, 4]]), "1.txt", "options"
    ),
    "answer that is no letter": race(article(answers=["E"]), "1.txt"),
    "answers for no question": race(article(answers=[]), "1.txt"),
    "three options": race(article(options=[["a", "b", "c"]]), "1.txt"),
    "no article": race(article(article=""), "1.txt"),
    "deep RACE": race(DEEP, "1.txt"),
    "whole number as article": race(article(article=7), "1.txt", "article"),
    # A user's own file.
    "column twice": own(b"text\ttext\nA\tB\n", "text", name="p.tsv"),
    "column that is missing": own(b"text\nA\n", "text_pair", name="p.tsv"),
    "row too short": own(
        b"text\ttext_pair\nA\n", "p.tsv, line 2", name="p.tsv"
    ),
    "a batch of nothing": own(GOOD, "--batch_size=0", batch_size=0),
    "nothing to answer": own(b"", "p.jsonl"),
    "answers over the questions": own(
        GOOD, "--output_file", output_file="{here}/p.jsonl"
    ),
    # Checkpoints.
    "tensors of nothing": tensors({}, "model.safetensors"),
    "header longer than the file": tensors(
        {"a": TENSOR}, "model.safetensors", length=10**6
    ),
    "header without end": tensors(
        {"a": TENSOR}, "model.safetensors", length=2**63
    ),
    "tensor beyond the end": tensors(
        {"a": {**TENSOR, "data_offsets": [0, 10**9]}}, "model.safetensors"
    ),
    "tensor of another shape": tensors(
        {"a": {**TENSOR, "shape": [10**9, 10**9]}}, "model.safetensors"
    ),
    "tensor of an unknown type": tensors(
        {"a": {**TENSOR, "dtype": "F7"}}, "model.safetensors"
    ),
    "tensors in place of a list": tensors([], "model.safetensors"),
    "checkpoint that is a text": Case(
        CONVERT,
        {"from": "{here}/m.ckpt"},
        ("--from",),
        {"m.ckpt.index": b"text"},
    ),
    "records that are longer than they are": Case(
        RECORDS,
        {"input_file": "{here}/a"},
        ("{here}/a",),
        {"a": struct.pack("<QI", 2**62, 0) + bytes(100)},
    ),
}


def option(name: str, value: object) -> Callable[[bytes], bytes]:
    """Write another value of an option into a run's options."""

    def change(whole: bytes) -> bytes:
        content = json.loads(whole)
        content["options"][name] = value
        return json.dumps(content).encode()

    return change


def instead(content: bytes) -> Callable[[bytes], bytes]:
    """Write something else."""
    return lambda whole: content


_READS_RUN = ("predict", "export", "ensemble")
# What a run's folder from elsewhere may hold: a file of it, what it holds then,
# which commands read it, and what they say; without a word they must succeed.
RUNS = {
    "module of the folder": (
        *("run_options.json", option("task_module", "payload")),
        *(_READS_RUN, ("--task_module", "payload")),
    ),
    "module elsewhere": (
        *("run_options.json", option("task_module", "os.path")),
        *(_READS_RUN, ("--task_module", "os.path")),
    ),
    "task that is a number": (
        *("run_options.json", option("task_name", 7)),
        *(_READS_RUN, ("run_options.json", "task_name is 7")),
    ),
    "length of a text": (
        *("run_options.json", option("max_seq_length", "32")),
        *(("predict", "export"), ("run_options.json",)),
    ),
    "length without end": (
        *("run_options.json", option("max_seq_length", 10**30)),
        *(("predict", "export"), ("max_seq_length",)),
    ),
    "deep options": (
        *("run_options.json", instead(DEEP), _READS_RUN),
        ("run_options.json",),
    ),
    "options of nothing": (
        *("run_options.json", instead(b"{}"), _READS_RUN),
        ("run_options.json",),
    ),
    "deep config": (
        *("albert_config.json", instead(DEEP), _READS_RUN),
        ("albert_config.json",),
    ),
    "checkpoint elsewhere": (
        "checkpoint",
        instead(b'model_checkpoint_path: "../../beside/precious.txt"\n'),
        *(("predict", "export"), None),
    ),
    "checkpoint list of zeros": (
        *("checkpoint", instead(bytes(99)), ("predict", "export"), None),
    ),
    "best checkpoint that is empty": (
        *("model.ckpt-best.index", instead(b""), ("predict", "export")),
        ("run",),
    ),
    "vocabulary that is none": (
        *("spm.model", instead(b"text"), ("predict", "export")),
        ("spm.model",),
    ),
    "deep scores": ("scores.json", instead(DEEP), ("predict",), ("scores",)),
    "outputs of pickles": (
        *("dev_outputs.npz", instead(b"\x80\x04]\x94."), ("ensemble",)),
        ("dev_outputs.npz",),
    ),
    "log of brackets": (
        *("metrics.jsonl", instead(DEEP + b"\n"), ("write_run_card",), None),
    ),
    "log that is not UTF-8": (
        *("metrics.jsonl", instead(b"\xff\n"), ("write_run_card",), None),
    ),
}
