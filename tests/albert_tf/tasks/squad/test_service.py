"""Questions and answers in the graph, against `SquadTask` in Python."""

import lzma
import random

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning import base
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import make
from albert_tf.serving.services import text_windows
from albert_tf.tasks.squad import data as squad_data
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import task as squad
from albert_tf.text import tokenization
from tests.albert_tf.serving import saved_services
from tests.conftest import LAYER_ATOL, tiny_config

pytestmark = pytest.mark.slow

LENGTH = 32
WINDOWS = squad_features.PassageWindows(doc_stride=7, max_query_length=8)
THRESHOLD = 0.2
VERSIONS = ("1.1", "2.0")
STORY = "The rain falls on the hill and the old ferry waits at the harbour. "
CONTEXTS = [
    "",
    "   ",
    "A hill.",
    "The rain.",
    STORY * 4,
    "rain rain rain rain rain rain rain rain rain rain rain rain rain",
    "  Caf\u00e9 \u00bd is \ufb01ne\t\u2014 na\u00efve re\u0301sum\u00e9. ",
    "\u4eca\u5929 rain \u65e5\u672c, \ud55c\uad6d\uc5b4 hill",
    "\U0001f600 the rain \U0001f468\u200d\U0001f469\u200d\U0001f467 falls",
    "\u1112\u1161\u11ab q\u0307\u0323 \u0130I \u03a3\u03a3 In 2012, 1,024.",
    "The\u200b \u00ad rain\u3000\u00a0falls \u0301 on\x01 the \0 hill",
]
QUESTIONS = [
    "Where is it?",  # As long as a question may be.
    "",
    "Where does the old ferry wait when the rain falls on the hill?",
]


def cases():
    """Questions about contexts, those above and random ones."""
    generator = random.Random(5)
    words = " ".join(CONTEXTS).split()
    contexts = CONTEXTS + [
        " ".join(generator.choices(words, k=generator.randint(1, 60)))
        for _ in range(40)
    ]
    return [
        squad_data.Question(
            str(number), generator.choice(QUESTIONS), context, None
        )
        for number, context in enumerate(contexts)
    ]


def make_service(version, tokenizer, config, *, length=LENGTH, **options):
    task = squad.SquadTask(
        tokenizer,
        length,
        squad.SquadOptions(
            version,
            null_score_diff_threshold=THRESHOLD,
            **{"windows": WINDOWS, **options},
        ),
    )
    service = make.of_task(task, AlbertModel(config))
    # With some weights answers are too close.
    saved_services.spread(service.model, 0.2)
    return task, service


@pytest.fixture(scope="module")
def config():
    return tiny_config(max_position_embeddings=LENGTH)


def python_answers(task, service, questions):
    """What `SquadTask` says, with windows padded to their full length."""
    blocks = list(task.featurize(questions, base.PREDICT))
    inputs = {
        name: np.concatenate([block[name] for block in blocks])
        for name in service.ids
    }
    ask = tf.function(service.tokens)
    outputs = []
    size = text_windows._AT_ONCE
    for begin in range(0, len(inputs["input_ids"]), size):
        rows = [
            tf.constant(values[begin : begin + size], tf.int32)
            for values in inputs.values()
        ]
        outputs.append(ask(*rows))
    joined = {
        name: np.concatenate([part[name] for part in outputs])
        for name in service.parts
    }
    return list(task.answers(joined, questions))


def ask_texts(signature, questions):
    found = signature(
        question=tf.constant([q.text for q in questions], tf.string),
        context=tf.constant([q.context for q in questions], tf.string),
    )
    return {name: value.numpy() for name, value in found.items()}


def text_of(entry, name="text"):
    """A text of `SquadTask`, as a service gives it: see `AnswerServiceV1`."""
    return b"" if entry[name] == "empty" else entry[name].encode()


def check(found, questions, expected):
    """Compare what a service found with the answers of `SquadTask`."""
    for row, (question, answer) in enumerate(
        zip(questions, expected, strict=True)
    ):
        own = {name: value[row] for name, value in found.items()}
        n_best = answer["n_best"]
        padding = len(own["n_best_answers"]) - len(n_best)
        texts = [*map(text_of, n_best), *[b""] * padding]
        assert own["n_best_answers"].tolist() == texts, question
        scores = [e["start_log_prob"] + e["end_log_prob"] for e in n_best]
        chances = [entry["probability"] for entry in n_best]
        numbers = {
            "n_best_scores": scores + [0] * padding,
            "n_best_probabilities": chances + [0] * padding,
        }
        if "null_score" in answer:
            score = np.float64(np.float32(answer["null_score"]))
            numbers["no_answer_score"] = score
            numbers["no_answer_probability"] = 1 / (1 + np.exp(-score))
        for name, wanted in numbers.items():
            np.testing.assert_allclose(
                own[name], wanted, atol=LAYER_ATOL, rtol=1e-6, err_msg=name
            )
        assert own["answer"] == text_of(answer, "prediction")
        assert own["score"] == own["n_best_scores"][0]
        context = question.context.encode()
        assert context[own["start"] : own["end"]] == own["answer"]
        check_places(own, context)


def check_places(own, context):
    """Each entry stands at its bytes; one without text at 0."""
    for text, start, end in zip(
        own["n_best_answers"].tolist(),
        own["n_best_start"],
        own["n_best_end"],
        strict=True,
    ):
        assert context[start:end] == text
        assert text or start == end == 0


@pytest.fixture(scope="module", params=VERSIONS)
def saved(request, tokenizer, config, tmp_path_factory):
    """A saved service, with its task."""
    task, service = make_service(request.param, tokenizer, config)
    path = tmp_path_factory.mktemp("squad") / "model"
    saved = saved_services.save(service, path)
    saved.task = task
    return saved


def test_answers_are_those_of_python(saved):
    questions = cases()
    windows = saved.task._windows(questions)
    assert len(windows) > 2 * text_windows._AT_ONCE
    assert max(s.stop - s.start for s in windows.spans) > 4
    expected = python_answers(saved.task, saved.service, questions)
    texts = {entry["prediction"] for entry in expected}
    assert len(texts) > len(questions) / 4
    found = ask_texts(saved.signatures["serving_default"], questions)
    check(found, questions, expected)
    sizes = [len(saved.task.tokenizer.encode(q.text)) for q in questions]
    longest = WINDOWS.max_query_length
    assert longest in sizes
    assert found["question_truncated"].tolist() == [n > longest for n in sizes]
    nothing = ask_texts(saved.signatures["serving_default"], [])
    assert {value.shape[0] for value in nothing.values()} == {0}


def test_texts_that_are_none(saved):
    texts = [b"", b"\x01\x02", b" \xe2\x80\x8b", b"\xff", b"a \xff\xfe hill"]
    found = saved.signatures["serving_default"](
        question=tf.constant([b"What?", b"\xff", b"", b"\xf0\x9f", b"\xff"]),
        context=tf.constant(texts),
    )
    found = {name: value.numpy() for name, value in found.items()}
    for row in range(3):
        assert found["n_best_answers"][row].tolist() == [b""] * 20
        assert found["n_best_probabilities"][row].tolist() == [1] + [0] * 19
        is_1 = saved.task.options.squad_version == "1.1"
        assert found["score"][row] == (0 if is_1 else -2e6)
        if not is_1:
            assert found["no_answer_score"][row] == 1e6
            assert found["no_answer_probability"][row] == 1
    for row, text in enumerate(texts):
        check_places({name: value[row] for name, value in found.items()}, text)
    assert found["n_best_answers"][4, 0] != b""


def test_inputs_that_do_not_fit_are_refused(saved):
    sample = saved.service.samples()["tokens"]
    inputs = {key: tf.repeat(value, 2, 0) for key, value in sample.items()}
    last = list(inputs)[-1]
    inputs[last] = inputs[last][:1]
    message = f"{last} must have the shape of input_ids"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        saved.signatures["tokens"](**inputs)


def test_tokens_are_what_the_model_says(saved):
    names = saved.service.ids
    inputs = {
        "input_ids": np.arange(24).reshape(2, 12) + 20,
        "input_mask": [[1] * 12, [1] * 9 + [0] * 3],
        "segment_ids": [[0] * 5 + [1] * 7, [0] * 4 + [1] * 5 + [0] * 3],
        "p_mask": [[0] + [1] * 4 + [0] * 6 + [1]] * 2,
    }
    inputs = {n: tf.constant(inputs[n], tf.int32) for n in names}
    found = saved.signatures["tokens"](**inputs)
    expected = saved.model(inputs)
    expected |= saved.model.encoder(inputs)
    assert set(found) == {
        "sequence_output",
        "pooled_output",
        *saved.service.parts,
    }
    for name in found:
        saved_services.assert_close(found[name], expected[name])


@pytest.mark.parametrize("original", [False, True])
def test_question_at_the_threshold(original, tokenizer, config):
    _, service = make_service(
        "2.0", tokenizer, config, original_threshold=original
    )
    texts = tf.constant(["Who?"]), tf.constant(["The rain falls."])
    first = service.answer(*texts)
    service._threshold = float(first["no_answer_score"][0])
    found = service.answer(*texts)
    best = found["n_best_answers"][0, 0].numpy()
    assert best != b""
    expected = (b"", 0, 0)
    if not original:
        start, end = found["n_best_start"][0, 0], found["n_best_end"][0, 0]
        expected = (best, int(start), int(end))
    names = ("answer", "start", "end")
    assert tuple(found[name].numpy()[0] for name in names) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_options_of_answers_and_a_wordpiece_vocabulary(
    version, config, tmp_path
):
    pieces = ["hill", "rain", "the", "falls", "##s", "on", "\u4eca", ".", "e"]
    path = tmp_path / "vocab.txt"
    path.write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + pieces),
        "utf-8",
    )
    tokenizer = tokenization.load(
        tokenization.VocabularyOptions(vocab_file=str(path))
    )
    task, service = make_service(
        version, tokenizer, config, answers=squad.AnswerOptions(3, 2)
    )
    questions = cases()[:20]
    expected = python_answers(task, service, questions)
    found = ask_texts(service.answer, questions)
    assert found["n_best_answers"].shape == (20, 3)
    options = {"doc_stride": 7, "max_query_length": 8}
    options |= {"n_best_size": 3, "max_answer_length": 2}
    options["squad_version"] = version
    if version == "2.0":
        options["null_score_diff_threshold"] = THRESHOLD
        options["original_threshold"] = False
    assert service.text_options == options
    check(found, questions, expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_real_questions(version, shared_dir, tmp_path):
    content = lzma.decompress(
        (shared_dir / "data" / "squad" / f"dev-v{version}.json.xz").read_bytes()
    )
    path = tmp_path / "dev.json"
    path.write_bytes(content)
    questions = squad_data.read(str(path), "predict_file")
    questions = questions[:: len(questions) // 150]
    vocabulary = shared_dir / "data" / "vocab" / "30k-clean.model"
    tokenizer = tokenization.Tokenizer(str(vocabulary))
    config = tiny_config(
        vocab_size=tokenizer.vocab_size, max_position_embeddings=128
    )
    task, service = make_service(
        version,
        tokenizer,
        config,
        length=128,
        windows=squad_features.PassageWindows(40, 24),
    )
    expected = python_answers(task, service, questions)
    assert len({entry["prediction"] for entry in expected}) > 40
    check(ask_texts(service.answer, questions), questions, expected)
