"""Lines to requests, and the answers of SavedModels to them."""

import io
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.common import prompts, rows, scores
from albert_tf.serving.client import ask
from albert_tf.serving.formats import id_model
from albert_tf.training import run_folder
from tests.conftest import refused

LINES = {"text": 1}
PAIRS = {"text": 1, "text_pair": 1}
CHOICES = {"article": 1, "question": 1, "options": 4}


def read(content, inputs=LINES, name="in.jsonl"):
    if isinstance(content, str):
        content = content.encode()
    items = ask.read(io.BytesIO(content), name, inputs)
    return list(rows.raise_bad_lines(items))


def entry(**values):
    return json.dumps(values) + "\n"


def of(options):
    return entry(article="a", question="q", options=options)


# Lines to requests.


@pytest.mark.parametrize(
    "line, text",
    [
        ("It rains.\r\n", "It rains."),
        ("\ufeffIt rains.", "It rains."),
        (" It  rains. \n", " It  rains. "),
        ('"It rains."\n', '"It rains."'),
        ("a\u2028b\u0085c\n", "a\u2028b\u0085c"),
        (entry(text="It rains.", label=1), "It rains."),
        (entry(text=""), ""),
    ],
)
def test_line_to_text(line, text):
    assert read(line) == [ask.Request({"line": 1}, {"text": text})]


def test_answers_are_known_by_their_id_or_line():
    ids = ["x", 7, "7", None, [1]]
    lines = ["a\n", "\n", *(entry(text="b", id=id_) for id_ in ids), "d"]
    keys = [request.key for request in read("".join(lines))]
    assert keys == [{"line": 1}, *({"id": id_} for id_ in ids), {"line": 8}]
    (request,) = read(f"[{entry(text='a')}]")
    assert request.key == {"object": 1}
    with refused("in.jsonl has no"):
        read("\n")


def test_missing_options_are_filled_up():
    for given in (["b", "c"], ["", "b", "c"], [*"bcde"]):
        (request,) = read(of(options=given), CHOICES)
        assert request.texts["options"] == (given + ["", ""])[:4]


@pytest.mark.parametrize(
    "content, inputs, message",
    [
        (
            entry(text="a", pair="b"),
            PAIRS,
            "line 1 has no 'text_pair'; there are 'text', 'pair'.*needs text,",
        ),
        (entry(text=["a"]), LINES, r"line 1: 'text' is \[\"a\"\]; it must be"),
        (of(options=["b"]), CHOICES, "'options' is .*a list of 2 to 4 texts"),
        (
            of(options=["b", ""]),
            CHOICES,
            "list of 2 to 4 texts, where an empty",
        ),
        (of(options="bc"), CHOICES, "'options' is .*a list of 2 to 4 texts"),
        (of(options=list("bcdef")), CHOICES, "'options' is .*a list of 2 to 4"),
        (of(options=["b", 2]), CHOICES, "line 1: 'options', number 1 is 2; it"),
    ],
)
def test_bad_line_is_named(content, inputs, message):
    with refused(f"in.jsonl, .*{message}"):
        read(content, inputs)


# Requests to answers.


class Echo(tf.Module):
    """A model that says what it was asked."""

    @tf.function
    def pairs(self, text, text_pair):
        return {
            "label": text + tf.constant(" \0é ") + text_pair,
            "probabilities": tf.strings.to_number(text)[:, None] * [0.5, 1.5],
            "truncated": text == text_pair,
        }

    @tf.function
    def choose(self, article, question, options):
        said = tf.strings.reduce_join(options, 1, separator="|")
        return {"answer": article + question + said, "options": options}

    @tf.function
    def tokens(self, input_ids):
        return {"logits": input_ids}


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("echo") / "1")
    model = Echo()

    def spec(name, *shape, dtype=tf.string):
        return tf.TensorSpec([None, *shape], dtype, name)

    inputs = {
        "serving_default": (model.pairs, spec("text"), spec("text_pair")),
        "choose": (
            model.choose,
            spec("article"),
            spec("question"),
            spec("options", 4),
        ),
        "tokens": (model.tokens, spec("input_ids", None, dtype=tf.int32)),
    }
    signatures = {
        name: function.get_concrete_function(*specs)
        for name, (function, *specs) in inputs.items()
    }
    tf.saved_model.save(model, path, signatures=signatures)
    return path


def answer(signature, lines, batch_size=32):
    content = io.BytesIO("".join(lines).encode())
    items = list(ask.read(content, "in.jsonl", signature.inputs))
    starts = range(0, len(items), batch_size)
    batches = [items[start : start + batch_size] for start in starts]
    return [one for b in batches for one in rows.answer_items(b, signature)]


@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_answers_come_in_order_whatever_the_batch(echo, batch_size):
    """With errors among them."""
    signature = ask.load(echo, "serving_default")
    assert signature.inputs == PAIRS
    lines = [entry(id=f"q{n}", text=f"{n}", text_pair="2") for n in range(7)]
    expected = [
        {
            "id": f"q{n}",
            "label": f"{n} \0é 2",
            "probabilities": [0.5 * n, 1.5 * n],
            "truncated": n == 2,
        }
        for n in range(7)
    ]
    lines[4] = entry(id="q4", text="4")
    *others, bad = *expected[:4], *expected[5:], {"id": "q4", "line": 5}
    found = answer(signature, lines, batch_size)
    assert "in.jsonl, line 5 has no 'text_pair'" in found[4].pop("error")
    assert [*found[:4], *found[5:], found[4]] == [*others, bad]


def test_lists_of_texts(echo):
    signature = ask.load(echo, "choose")
    assert signature.inputs == CHOICES
    line = entry(article="a", question="q", options=["b", "c\0"])
    (found,) = answer(signature, [line])
    options = ["b", "c\0", "", ""]
    assert found == {"line": 1, "answer": "aqb|c\0||", "options": options}


def test_outputs_are_divided_among_requests():
    """Of one, two and no rows more; what fills them up is left out."""
    outputs = {
        "num_spans": np.array([1, 0, 2]),
        "span_start": np.array([[1, 0, 0], [0, 0, 0], [2, 3, 0]]),
        "mlm_logits": np.arange(6),
    }
    first, second = ask.split(outputs, [1, 2])
    assert first["mlm_logits"].tolist() == [0, 1]
    assert second["mlm_logits"].tolist() == [2, 3, 4, 5]
    assert first["span_start"].tolist() == [[1]]
    assert second["span_start"].tolist() == [[0, 0], [2, 3]]
    assert ask.readable(first) == {
        "spans": [{"start": 1}],
        "mlm_logits": [0, 1],
    }
    joined = ask.join([first, second])
    assert joined["span_start"].tolist() == [[1, 0], [0, 0], [2, 3]]
    assert joined["mlm_logits"].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(
        ValueError, match="mlm_logits has no row .* of 4 inputs"
    ):
        ask.split({"mlm_logits": outputs["mlm_logits"]}, [1, 3])
    pieces = np.full([3, 2, 5], b"a", "O")
    pieces[:, 1], pieces[1, 0] = b"", b""
    chances = np.ones([3, 2, 5])
    parts = ask.split({"pieces": pieces, "probabilities": chances}, [1, 1, 1])
    assert [len(part["pieces"][0]) for part in parts] == [1, 0, 1]
    assert [part["probabilities"].shape[1] for part in parts] == [1, 0, 1]
    joined = ask.join(parts)
    assert joined["pieces"].tolist() == pieces[:, :1].tolist()
    assert joined["probabilities"][..., 0].tolist() == [[1], [0], [1]]
    labels = np.array([[b"b", b""]], "O")
    assert ask.readable({"predicted": labels}) == {"predicted": ["b"]}


@pytest.mark.slow
def test_masks_of_a_text_do_not_depend_on_its_neighbours(pretrained):
    signature = ask.load(str(pretrained.path), "fill_mask")
    texts = ["[MASK] and [MASK].\n", "No gap.\n", "It [MASK].\n"]
    together = answer(signature, texts)
    assert [len(a["pieces"]) for a in together] == [2, 0, 1]
    for line, text in enumerate(texts):
        (alone,) = answer(signature, [text])
        assert together[line]["pieces"] == alone["pieces"]
        assert len(together[line]["probabilities"]) == len(alone["pieces"])
        assert all(len(best) == 5 for best in alone["pieces"])


@pytest.mark.parametrize(
    "name, advice",
    [
        (run_folder.OPTIONS_NAME, "no .*albert_tf.predict and its `run_dir`"),
        (scores.FILE_NAME, "no .*albert_tf.predict and its `run_dir`"),
        (id_model.DESCRIPTION_NAME, "no .*`format=saved_model"),
        ("else", "no SavedModel: .*Name what albert_tf.export wrote"),
        ("3/saved_model.pb", "no .*Name a version of it, such as 3"),
        ("saved_model.pb", "cannot be loaded: .* Copy it again"),
    ],
)
def test_other_folders_are_told_apart(tmp_path, name, advice):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("{}")
    with refused(f"(?s)`saved_model=.*{advice}"):
        ask.load(str(tmp_path), "serving_default")


@pytest.mark.parametrize(
    "name, message",
    [("tokens", "takes ids, not texts"), ("other", "does not exist")],
)
def test_signature_without_text_is_refused(echo, name, message):
    with refused(
        f"`signature={name}` {message} .*are choose, serving_default",
    ):
        ask.load(echo, name)


@pytest.mark.parametrize(("usual", "count"), [(None, 1), ("query", 0)])
def test_an_export_tells_that_it_puts_no_prompt(tmp_path, caplog, usual, count):
    prompts.warn.cache_clear()
    given = prompts.PromptOptions('{"query": "query: "}', usual)
    about = json.dumps({"options": given.to_dict()})
    ask.warn_of_prompts(str(tmp_path))
    (tmp_path / "export.json").write_text(about)
    for _ in range(2):
        ask.warn_of_prompts(str(tmp_path))
    assert len(caplog.messages) == count
