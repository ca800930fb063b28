"""answer.py in a process without TensorFlow, against the SavedModel."""

import functools
import io
import itertools
import json
import os
import re
import shutil
import sys
import types
from typing import ClassVar

import pytest

from albert_tf.common import packed_vectors, prompts, rows
from albert_tf.finetuning import packing
from albert_tf.model.heads import classification, pretraining
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import make
from albert_tf.serving.client import ask
from albert_tf.serving.formats import (
    answer,
    id_model,
    lite_model,
    onnx_model,
    saved_model,
)
from albert_tf.serving.services import encoder_service
from albert_tf.tasks.embedding import task as embedding
from albert_tf.tasks.text import portable
from albert_tf.tasks.text import service as text_service
from albert_tf.tasks.text.task import WindowOptions
from albert_tf.text import (
    tokenization,
    tokenizer_check,
    tokenizer_json,
    wordpiece,
)
from tests.albert_tf.serving import saved_services
from tests.albert_tf.text import hard_texts
from tests.conftest import FIXTURES, python, refused, tiny_config

OWN = FIXTURES / "own_text"
LENGTH = 24
MOST_MIB = 300
# The same network, written by another compiler.
FLOAT_ATOL = 1e-4
# Runs the program; importing one of the packages fails. The last line says the
# most memory in KiB.
ALONE = """
import atexit, pathlib, runpy, sys
status = pathlib.Path("/proc/self/status")
most = lambda: status.read_text().partition("VmHWM:")[2].split()[0]
atexit.register(lambda: print(most(), file=sys.stderr))
for name in sys.argv[2].split():
    sys.modules[name] = None
path = sys.argv[1] + "/answer.py"
sys.path.insert(0, sys.argv[1])
sys.argv = [path, *sys.argv[3:]]
runpy.run_path(path, run_name="__main__")
"""
BLOCKED = (
    "albert_tf data_prep absl orjson onnx tensorflow tensorflow_text tf2onnx "
    "tf_keras tokenizers"
)
# Lines with an error, and one without text, which is left out.
BAD_LINES = (
    b'{"text": "a\xff", "text_pair": ""}\n'
    b'{"id": "x", "text": 7, "text_pair": "b"}\n'
    b'{"text": "\\ud83d", "text_pair": ""}\n'
    b'{"id": NaN, "text": "a", "text_pair": ""}\n'
    b" \n"
    b'{"id": [1], "text": "a", "text_pair": "b"}\n'
    b'{"id": null, "text": "a"\n'
)
# Models of tags take the first two, too.
WORDS = (
    b'{"words": ["Mara", "Nord", "\'s", "(", "U.S.", ")", "."], "id": "w"}\n'
    b'{"words": [], "text": "x"}\n'
    b'{"words": "Mara"}\n'
    b'{"words": ["a", ""]}\n'
    b'{"words": [1]}\n'
)
# Services that divide long texts.
WINDOWS = {
    "max of windows": (
        functools.partial(
            text_service.ClassifierService, labels=saved_services.LABELS
        ),
        WindowOptions("max"),
    ),
    "mean of windows": (
        functools.partial(
            text_service.MultiLabelService,
            labels=saved_services.LABELS,
            thresholds=(0.3, 0.34, 0.4),
        ),
        WindowOptions("mean", 30),
    ),
    "number of windows": (
        text_service.RegressionService,
        WindowOptions("mean", 9),
    ),
}
# Format, service, and the vocabulary with its options.
CASES = [
    ("onnx", "pair", {"spm_model_file": "spm.model"}),
    ("litert", "pair", {"vocab_file": "vocab.txt"}),
    (
        "litert",
        "labels",
        {
            "spm_model_file": "spm.model",
            "do_lower_case": False,
            "strip_spurious_marker": True,
        },
    ),
    ("onnx", "labels", {"vocab_file": "vocab.txt", "do_lower_case": False}),
    ("onnx", "regression", {"spm_model_file": "spm.model"}),
    (
        "litert",
        "embedding",
        {"spm_model_file": "spm.model", "keep_accents": True},
    ),
    ("onnx", "bits", {"vocab_file": "vocab.txt", "keep_accents": True}),
    ("onnx", "pretraining", {"vocab_file": "tokenizer.json"}),
    *(("onnx", kind, {"vocab_file": "vocab.txt"}) for kind in WINDOWS),
    ("onnx", "tagging", {"spm_model_file": "spm.model"}),
    ("litert", "tagging", {"vocab_file": "vocab.txt"}),
    ("litert", "squad 1.1", {"spm_model_file": "spm.model"}),
    (
        "onnx",
        "squad 2.0",
        {"spm_model_file": "spm.model", "keep_accents": True},
    ),
    ("litert", "squad 2.0", {"vocab_file": "vocab.txt"}),
    ("onnx", "race", {"spm_model_file": "spm.model"}),
]
PROMPTS = prompts.PromptOptions('{"a": "A ", "b": "The "}', "b")
FILES = ("spm_model_file", "vocab_file")
FORMS = {form.name: form for form in (lite_model.FORMAT, onnx_model.FORMAT)}


def recorded():
    """Texts whose ids in the original are recorded."""
    names = ("original_tokenization.jsonl", "original_wordpiece.jsonl")
    for name in names:
        for line in (OWN / name).read_text("utf-8").strip().split("\n"):
            yield json.loads(line)["text"]


TEXTS = [
    *tokenizer_check.HARD_TEXTS,
    *dict.fromkeys(recorded()),
    *hard_texts.mixed(100),
    *hard_texts.random_texts(100),
]


def make_service(kind, tokenizer):
    """A small service whose sequences are short enough to be cut often."""
    config = tiny_config(vocab_size=tokenizer.vocab_size)
    given = AlbertModel(config), tokenizer, LENGTH
    if kind in ("embedding", "bits"):
        given_out = packed_vectors.WHOLE
        if kind == "bits":
            given_out = packed_vectors.VectorOptions(8, "binary")
        prompting = PROMPTS if kind == "embedding" else prompts.NONE
        options = embedding.EmbeddingOptions(
            given_out=given_out, prompting=prompting
        )
        task = embedding.EmbeddingTask(tokenizer, LENGTH, options)
        service = make.of_task(task, given[0])
    elif kind in WINDOWS:
        make_it, long = WINDOWS[kind]
        model = classification.AlbertClassifier(given[0], 3)
        if kind == "number of windows":
            model = classification.AlbertClassifier(given[0], 1)
        service = make_it(model, *given[1:], pairs=False, long=long)
    elif kind in ("tagging", "squad 1.1", "squad 2.0", "race"):
        return saved_services.make_service(kind, config, tokenizer, LENGTH)
    elif kind == "pretraining":
        model = pretraining.AlbertPretrainer(given[0], True)
        service = encoder_service.PretrainedService(model, *given[1:])
    else:
        labels = () if kind == "regression" else saved_services.LABELS
        about = {"labels": labels, "pairs": kind == "pair"}
        if kind == "labels":
            about["thresholds"] = [0.5] * len(labels)
        model = classification.AlbertClassifier(given[0], len(labels) or 1)
        service = text_service.of_texts(model, *given[1:], **about)
    saved_services.spread(service.model)
    return service


def lines_for(names):
    """Every text, as the first or only one; in pairs with another one."""
    texts = [*TEXTS, *(" ".join(TEXTS[i : i + 30]) for i in (0, 90, 180))]
    rows = []
    for i, text in enumerate(texts):
        others = itertools.cycle(texts[i - 7 :] + texts)
        row = dict(zip(names, others, strict=False))
        row |= {min(names): text, "id": i}
        if "options" in row:
            row["options"] = [*itertools.islice(others, i % 3, 4)]
        rows.append(row)
    # As they are, or escaped.
    return BAD_LINES + b"".join(
        json.dumps(row, ensure_ascii=row["id"] % 2 == 0).encode() + b"\n"
        for row in rows
    )


# The first two are cut into pieces in parts; windows do not read the last.
LONG = "The cat. " * 1200, "\u4e00" * 10_500 + ".", "a." * 60_000


def long_line(names, text):
    row = dict.fromkeys(names, "It rains.") | {names[0]: text}
    row |= {"options": ["a", "b"], "id": text[:1]}
    return json.dumps(row).encode() + b"\n"


def run(folder, content, blocked=BLOCKED):
    how = {"input": content, "cwd": folder.parent, "text": False}
    return python("-c", ALONE, folder, blocked, status=None, **how)


@pytest.mark.parametrize(
    "form, kind, options", CASES, ids=[f"{a}-{b}" for a, b, _ in CASES]
)
@pytest.mark.slow
def test_every_hard_text_gets_the_answer_of_the_saved_model(
    form, kind, options, tmp_path
):
    words = wordpiece.WordPieceTokenizer(str(OWN / "vocab.txt"))
    if "tokenizer.json" in options.values():
        (tmp_path / "tokenizer.json").write_text(tokenizer_json.make(words))
    for name in ("spm.model", "vocab.txt"):
        shutil.copy(OWN / name, tmp_path)
    paths = {k: str(tmp_path / v) for k, v in options.items() if k in FILES}
    vocabulary = tokenization.VocabularyOptions(**{**options, **paths})
    service = make_service(kind, tokenization.load(vocabulary))
    folder = tmp_path / "export"
    model = id_model.IdModel(service, vocabulary)
    id_model.save(model, str(folder), FORMS[form])
    saved_model.save(service, str(tmp_path / "saved"))
    signature = ask.load(str(tmp_path / "saved"), "serving_default")
    names = sorted(signature.inputs)
    content = lines_for(names) + b"".join(map(long_line, [names] * 3, LONG))
    content += WORDS
    blocked = BLOCKED + " sentencepiece" * ("vocab_file" in options)
    done = run(folder, content, blocked)
    assert not done.returncode, done.stderr
    assert 10 < int(done.stderr.split()[-1]) / 1024 < MOST_MIB
    found = [json.loads(line) for line in done.stdout.splitlines()]
    items = list(ask.read(io.BytesIO(content), "-", signature.inputs))
    wanted = rows.answer_items(items, signature)
    assert len(found) == len(wanted) == len(TEXTS) + 3 + 6 + 5 + 3
    bad = [i for i, row in enumerate(wanted) if "error" in row]
    assert [i for i, row in enumerate(found) if "error" in row] == bad
    assert 5 + 3 <= len(bad) < 10 + 5
    assert ("error" in found[-6]) == bool(service.read_whole)
    if service.read_whole:
        assert "may have 100,000 characters. Divide" in found[-6]["error"]
    for row, expected in zip(found, wanted, strict=True):
        assert_same({**row, "error": 0}, {**expected, "error": 0})
    if kind == "tagging":
        assert found[-5]["text"] == "Mara Nord's (U.S.)."
        assert found[-4]["text"] == ""
        assert len(bad) < 10 + 3
        assert len({len(row.get("spans", ())) for row in found}) > 5
    if kind == "embedding":  # With another prompt than the usual one.
        asked = ask.load(str(tmp_path / "saved"), "", prompt="a")
        lines = [
            json.dumps({"text": text, "prompt": name, "id": name})
            for text in TEXTS[:9]
            for name in "ac"
        ]
        done = run(folder, "\n".join(lines).encode(), blocked)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert all("must be one of a, b" in row["error"] for row in found[1::2])
        requests = [ask.Request({"id": "a"}, {"text": t}) for t in TEXTS[:9]]
        for row, expected in zip(found[::2], asked(requests), strict=True):
            assert_same(row, expected)
    if kind == "squad 2.0":
        assert {not row.get("answer") for row in found[-300:]} == {True, False}


def assert_same(found, expected):
    """Compare answers; floats may differ slightly."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found = [found[name] for name in expected]
        expected = list(expected.values())
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_same(*pair)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=FLOAT_ATOL, rel=1e-6)
    else:
        assert found == expected


@pytest.fixture(scope="module")
def own_words():
    return wordpiece.WordPieceTokenizer(str(OWN / "vocab.txt"))


def pack(tokenizer, length, *row):
    """The ids of a row, and how many stand in its first segment."""
    special = {"cls": tokenizer.cls_id, "sep": tokenizer.sep_id}
    about = {"max_seq_length": length, "special_ids": special}
    return answer.Model._pack(types.SimpleNamespace(_about=about), *row)


def test_no_prompt_is_said_where_there_are_some(monkeypatch):
    said = []
    monkeypatch.setattr("warnings.warn", lambda text, **_: said.append(text))

    def before(entry, **options):
        about = types.SimpleNamespace(_about={"options": options}, names=["x"])
        return answer.Model._texts(about, {"x": "", **entry})[0]

    usual = {"prompts": {"a": "A "}, "default_prompt_name": "a"}
    assert before({}, **usual) == before({"prompt": "a"}, **usual) == "A "
    assert before({"prompt": ["a"]}) == before({}) == ""
    assert before({"prompt": ""}, **usual) == ""
    none = {**usual, "default_prompt_name": None}
    assert not said
    assert before({}, **none) == ""
    assert said == ["No 'prompt' is put before texts, of ['a']."]


@pytest.mark.parametrize("length", [9, 10])
def test_texts_are_packed_and_cut_as_in_training(own_words, length):
    for sizes in itertools.product(range(1, 12), range(12)):
        row = [list(range(50, 50 + size)) for size in sizes]
        packed = packing.pack([row], own_words, length)
        wanted = {name: values[0] for name, values in packed.items()}
        found = pack(own_words, length, *row)
        count = wanted["input_mask"].sum()
        assert found.ids == wanted["input_ids"][:count].tolist()
        assert found.front == count - wanted["segment_ids"].sum()
        about = {"max_seq_length": length, "options": {}}
        same = types.SimpleNamespace(encode=lambda ids, _: ids)
        for kind in (answer.Texts, portable.Decoder):
            told = kind(about, same).lay_out(*row)
            assert told == ([row], sum(sizes) > count - (2 + bool(sizes[1])))


def test_windows_of_a_text_reach_its_end():
    about = {"max_seq_length": 8, "options": {"windows": 0, "window_stride": 4}}
    texts = portable.Decoder(
        about, types.SimpleNamespace(encode=lambda n, _: range(n))
    )
    for size, starts in ((0, [0]), (6, [0]), (7, [0, 4]), (11, [0, 4, 8])):
        rows = [[range(size)[i : i + 6]] for i in starts]
        assert texts.lay_out(size) == (rows, False)


def test_texts_without_a_table_are_lines():
    lines = [b"\xef\xbb\xbfIt rains.\r\n", b"\n", b"[MASK] a\tb\n"]
    assert list(answer.read(lines, {"text": 1}, len)) == [
        ({"line": 1}, {"text": "It rains."}),
        ({"line": 3}, {"text": "[MASK] a\tb"}),
    ]
    with pytest.raises(answer.UsageError, match="is a table. Write one JSON"):
        list(answer.read([b"id\ttext\n"], {"text": 1}, len))


@pytest.mark.parametrize(
    "first, names",
    [
        (b"id,text\n", "text"),
        (b'"text";"id"\r\n', "text"),
        (b"id | text", "text"),
        (b"It rains.\t1\n", "text"),
        (b"text_pair,x,text\n", "text text_pair"),
    ],
)
def test_tables_are_refused_as_predict_does(first, names):
    lines, names = [first, b"a\n"], dict.fromkeys(names.split(), 1)
    with pytest.raises(answer.UsageError, match="is a table"):
        list(answer.read(lines, names, len))
    with refused("table|has no examples|no line can be"):
        list(rows.raise_bad_lines(ask.read(lines, "-", names)))


def test_doubled_keys_and_zero_bytes_are_refused():
    line = b'{"text": "a", "id": {"x": 1, "x": 2}}\n'
    ((key, texts),) = answer.read([line], {"text": 1}, len)
    assert not texts and "a key is there twice" in key["error"]
    with pytest.raises(answer.UsageError, match="zero bytes"):
        list(answer.read([b"a\0b\n"], {"text": 1}, len))


def test_files_of_tables_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["answer.py", "reviews.CSV"])
    with pytest.raises(SystemExit, match="2"):
        answer.main()
    assert "reviews.CSV: The input is a table." in capsys.readouterr().err


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_closed_streams_are_told(monkeypatch, capsys, name):
    monkeypatch.setattr(sys, "argv", ["answer.py"])
    monkeypatch.setattr(sys, name, None)
    with pytest.raises(SystemExit, match="2"):
        answer.main()
    assert "Standard input or output is closed" in capsys.readouterr().err


def cut_file(name):
    """A change of a folder: a file loses its second half."""

    def change(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return change


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder for LiteRT."""
    options = tokenization.VocabularyOptions(vocab_file=str(OWN / "vocab.txt"))
    service = make_service("labels", tokenization.load(options))
    folder = tmp_path_factory.mktemp("exported")
    model = id_model.IdModel(service, options)
    id_model.save(model, str(folder), lite_model.FORMAT)
    return folder


@pytest.mark.parametrize(
    "change, message",
    [
        (cut_file("model.tflite"), "model.tflite is damaged, or not of this"),
        (cut_file("vocab.txt"), "vocab.txt is damaged.*Copy the folder"),
        (cut_file("model.json"), "model.json is damaged"),
        (lambda f: (f / "model.json").write_text("[]"), "model.json is damag"),
        (lambda f: (f / "vocab.txt").unlink(), "No such file.*vocab.txt"),
        (lambda f: None, "ai_edge_litert.*first lines of answer.py"),
    ],
)
def test_what_cannot_be_read_is_said(exported, change, message, tmp_path):
    folder = tmp_path / "export"
    shutil.copytree(exported, folder)
    change(folder)
    done = run(folder, b"It rains.\n", BLOCKED + " ai_edge_litert")
    assert done.returncode == 2
    assert re.search(message, done.stderr.decode(), re.S)
    assert b"Traceback" not in done.stderr and not done.stdout


def test_without_any_answer_the_status_is_2(monkeypatch, capfdbinary, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": 1}\n')

    class Silent:
        names: ClassVar = {"text": 1}
        check = len

        def answers(self, entries):
            assert not entries
            return []

    monkeypatch.setattr(answer, "Model", Silent)
    monkeypatch.setattr(sys, "argv", ["answer.py", str(path)])
    assert answer.main() == 2
    out, err = capfdbinary.readouterr()
    assert json.loads(out)["line"] == 1
    assert b"1 of 1 answers are errors." in err
    (tmp_path / "empty").write_text("\n")
    for name in "none", "empty":
        monkeypatch.setattr(sys, "argv", ["answer.py", str(tmp_path / name)])
        with pytest.raises(SystemExit, match="2"):
            answer.main()
    assert b"empty has no texts" in capfdbinary.readouterr().err


def test_no_more_threads_than_cores_that_are_allowed(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    for allowed, threads in {(0, 2): 2, (3,): 1, (0, 1, 2, 3): 0}.items():
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, c=allowed: {*c})
        assert answer._threads() == threads
