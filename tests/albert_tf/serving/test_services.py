"""SavedModels: every signature against the live model, here and elsewhere."""

import os
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import modeling, tokenization
from albert_tf.heads import classification, pretraining
from albert_tf.serving import (
    choice_service,
    encoder_service,
    saved_model,
    text_service,
)
from albert_tf.tasks import base, glue, race
from tests.conftest import LAYER_ATOL

MAX_SEQ_LENGTH = 16
IDS = ("input_ids", "input_mask", "segment_ids")
LABELS = ("entailment", "not_entailment")
TEXTS = ["It rains in the north.", "", "The ferry waits at the old harbour."]
SECONDS = ["It is wet.", "We stay.", ""]
RACE = race.RaceOptions(max_qa_length=6, pad_options=True)
MASKED = ["The [MASK] rains.", "No gap.", "[MASK] and [MASK]."]
# What a SavedModel holds beside weights and vocabulary: the graphs of five
# signatures, each with two layers here. The graphs grow with the depth of the
# unrolled encoder, not with the size of its weights.
GRAPH_BYTES = 1_900_000
# Plain, and with [MASK] as a symbol; see `GraphTokenizer`. TensorFlow writes
# each of them twice: in the main graph and in the function that creates it.
VOCABULARY_COPIES = 4

# Loads a SavedModel where nothing but TensorFlow and TF Text can be imported,
# calls its signatures, and keeps what they say.
STRANGER = """
import sys

BLOCKED = {"albert_tf", "data_prep", "tf_keras", "official", "sentencepiece"}

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            return None
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
import numpy as np
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
answers = {}
for key, value in np.load(sys.argv[2], allow_pickle=False).items():
    name, argument = key.split("|")
    answers.setdefault(name, {})[argument] = tf.constant(value)
outputs = {}
for name, arguments in answers.items():
    for key, value in model.signatures[name](**arguments).items():
        outputs[f"{name}|{key}"] = value.numpy()
outputs = {
    k: v.astype("S") if v.dtype == object else v for k, v in outputs.items()
}
np.savez(sys.argv[3], **outputs)
assert not BLOCKED & sys.modules.keys()
"""


def spread(model):
    """Give all weights new values, so that no answer is close to another."""
    for index, variable in enumerate(model.variables):
        seed = [7, index]
        noise = tf.random.stateless_normal(variable.shape, seed, stddev=0.1)
        variable.assign_add(noise)
    return model


@pytest.fixture(scope="module")
def config():
    return modeling.AlbertConfig(
        vocab_size=400,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=20,
    )


@pytest.fixture(scope="module")
def tokenizer(tiny_vocab):
    return tokenization.Tokenizer(tiny_vocab)


def save(service, path):
    saved_model.save(service, str(path))
    loaded = tf.saved_model.load(str(path))
    return types.SimpleNamespace(
        service=service,
        model=service.model,
        path=path,
        loaded=loaded,
        signatures=loaded.signatures,
    )


@pytest.fixture(scope="module")
def pretrained(config, tokenizer, tmp_path_factory):
    model = spread(pretraining.AlbertPretrainer(modeling.AlbertModel(config)))
    service = encoder_service.PretrainedService(
        model, tokenizer, MAX_SEQ_LENGTH
    )
    return save(service, tmp_path_factory.mktemp("pretrained") / "model")


def make_classifier(config, tokenizer, *, pairs):
    model = classification.AlbertClassifier(modeling.AlbertModel(config), 2)
    return text_service.ClassifierService(
        spread(model), tokenizer, MAX_SEQ_LENGTH, labels=LABELS, pairs=pairs
    )


@pytest.fixture(scope="module")
def of_pairs(config, tokenizer, tmp_path_factory):
    service = make_classifier(config, tokenizer, pairs=True)
    return save(service, tmp_path_factory.mktemp("pairs") / "model")


@pytest.fixture(scope="module")
def of_singles(config, tokenizer, tmp_path_factory):
    service = make_classifier(config, tokenizer, pairs=False)
    return save(service, tmp_path_factory.mktemp("singles") / "model")


@pytest.fixture(scope="module")
def bare(config, tokenizer, tmp_path_factory):
    encoder = spread(modeling.AlbertModel(config))
    service = encoder_service.EncoderService(encoder, tokenizer, MAX_SEQ_LENGTH)
    return save(service, tmp_path_factory.mktemp("bare") / "model")


@pytest.fixture(scope="module")
def of_numbers(config, tokenizer, tmp_path_factory):
    model = classification.AlbertClassifier(modeling.AlbertModel(config), 1)
    service = text_service.RegressionService(
        spread(model), tokenizer, MAX_SEQ_LENGTH, pairs=True
    )
    return save(service, tmp_path_factory.mktemp("numbers") / "model")


@pytest.fixture(scope="module")
def of_choices(config, tokenizer, tmp_path_factory):
    model = classification.AlbertMultipleChoice(modeling.AlbertModel(config))
    service = choice_service.ChoiceService(
        spread(model), tokenizer, MAX_SEQ_LENGTH, RACE
    )
    return save(service, tmp_path_factory.mktemp("choices") / "model")


def pack(tokenizer, first, second=None):
    """What the Python side makes of texts, padded to MAX_SEQ_LENGTH."""
    rows = [
        glue.pack(
            tokenizer.encode(a), tokenizer.encode(b), tokenizer, MAX_SEQ_LENGTH
        )
        for a, b in zip(first, second or [""] * len(first), strict=True)
    ]
    return {
        name: tf.constant([row[name] for row in rows], tf.int32)
        for name in rows[0]
    }


def assert_close(output, expected):
    np.testing.assert_allclose(output, expected, atol=LAYER_ATOL, rtol=0)


# Ids in.


def test_pretrained_offers_these_signatures(pretrained):
    assert set(pretrained.signatures) == {
        "tokens",
        "mlm",
        "sentence_order",
        "serving_default",
        "fill_mask",
    }


def test_classifier_offers_these_signatures(of_pairs):
    assert set(of_pairs.signatures) == {"tokens", "serving_default"}


@pytest.mark.parametrize("count", [1, 3])
def test_tokens(pretrained, tokenizer, count):
    inputs = pack(tokenizer, TEXTS[:count])
    outputs = pretrained.signatures["tokens"](**inputs)
    expected = pretrained.model.encoder(inputs)
    assert set(outputs) == {"sequence_output", "pooled_output"}
    for name in outputs:
        assert_close(outputs[name], expected[name])


@pytest.mark.parametrize("count", [1, 3])
def test_mlm(pretrained, tokenizer, count):
    inputs = pack(tokenizer, TEXTS[:count])
    positions = tf.constant([[1, 2, 0], [0, 1, 5], [3, 2, 1]][:count])
    outputs = pretrained.signatures["mlm"](mlm_positions=positions, **inputs)
    expected = pretrained.model({**inputs, "masked_lm_positions": positions})
    assert set(outputs) == {"sequence_output", "pooled_output", "mlm_logits"}
    # Flat, as the original has it.
    logits = tf.reshape(expected["masked_lm_logits"], [count * 3, 400])
    assert_close(outputs["mlm_logits"], logits)


@pytest.mark.parametrize("count", [1, 3])
def test_sentence_order(pretrained, tokenizer, count):
    inputs = pack(tokenizer, TEXTS[:count], SECONDS[:count])
    outputs = pretrained.signatures["sentence_order"](**inputs)
    positions = tf.zeros([count, 1], tf.int32)
    expected = pretrained.model({**inputs, "masked_lm_positions": positions})
    assert set(outputs) == {"sequence_output", "pooled_output", "sop_logits"}
    assert_close(outputs["sop_logits"], expected["sentence_order_logits"])


@pytest.mark.parametrize("count", [1, 3])
def test_classifier_tokens(of_pairs, tokenizer, count):
    inputs = pack(tokenizer, TEXTS[:count], SECONDS[:count])
    outputs = of_pairs.signatures["tokens"](**inputs)
    expected = of_pairs.model(inputs)["logits"]
    assert set(outputs) == {
        "sequence_output",
        "pooled_output",
        "logits",
        "probabilities",
    }
    assert_close(outputs["logits"], expected)
    assert_close(outputs["probabilities"], tf.nn.softmax(expected))


def test_length_may_change_from_call_to_call(pretrained):
    for length in (1, 7, 20):
        ids = tf.fill([2, length], 20)
        outputs = pretrained.signatures["tokens"](
            input_ids=ids,
            input_mask=tf.ones_like(ids),
            segment_ids=tf.zeros_like(ids),
        )
        assert outputs["sequence_output"].shape == [2, length, 16]


@pytest.mark.parametrize("name", ["pretrained", "of_pairs"])
def test_too_long_ids_are_refused_with_the_limit(request, name):
    ids = tf.ones([1, 21], tf.int32)
    signature = request.getfixturevalue(name).signatures["tokens"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="20 positions"):
        signature(input_ids=ids, input_mask=ids, segment_ids=ids)


# Text in.


@pytest.mark.parametrize("count", [1, 3])
def test_embeddings_of_text(pretrained, tokenizer, count):
    outputs = pretrained.signatures["serving_default"](
        text=tf.constant(TEXTS[:count])
    )
    inputs = pack(tokenizer, TEXTS[:count])
    expected = pretrained.model.encoder(inputs)
    assert set(outputs) == {"pooled_output", "mean_output", "truncated"}
    assert_close(outputs["pooled_output"], expected["pooled_output"])
    mask = inputs["input_mask"].numpy()
    for row, vectors in enumerate(expected["sequence_output"].numpy()):
        mean = vectors[mask[row] == 1].mean(0)
        assert_close(outputs["mean_output"][row], mean)


def test_longer_text_is_cut(pretrained, tokenizer):
    text = " ".join(TEXTS * 5)
    assert len(tokenizer.encode(text)) > MAX_SEQ_LENGTH
    outputs = pretrained.signatures["serving_default"](text=tf.constant([text]))
    assert outputs["truncated"].numpy().tolist() == [True]
    expected = pretrained.model.encoder(pack(tokenizer, [text]))
    assert_close(outputs["pooled_output"], expected["pooled_output"])


def test_answers_do_not_depend_on_the_rest_of_the_batch(pretrained):
    embed = pretrained.signatures["serving_default"]
    together = embed(text=tf.constant(TEXTS))
    for row, text in enumerate(TEXTS):
        alone = embed(text=tf.constant([text]))
        for name in alone:
            assert_close(alone[name][0], together[name][row])


def expected_fillings(model, tokenizer, text):
    """Pieces and probabilities for each mask of one text, the plain way."""
    ids = [
        tokenizer.cls_id,
        *tokenizer.encode_with_masks(text),
        tokenizer.sep_id,
    ]
    masks = [i for i, id_ in enumerate(ids) if id_ == tokenizer.mask_id]
    batch = {"input_ids": tf.constant([ids])}
    batch["masked_lm_positions"] = tf.constant([masks or [0]])
    logits = model(batch)["masked_lm_logits"][0, : len(masks)].numpy()
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    odds /= odds.sum(-1, keepdims=True)
    best = odds.argsort(-1)[:, ::-1][:, : encoder_service.TOP_PIECES]
    pieces = [tokenizer.ids_to_pieces(row) for row in best.tolist()]
    return pieces, np.take_along_axis(odds, best, -1)


@pytest.mark.parametrize("count", [1, 3])
def test_fill_mask(pretrained, tokenizer, count):
    outputs = pretrained.signatures["fill_mask"](
        text=tf.constant(MASKED[:count])
    )
    pieces = np.char.decode(outputs["pieces"].numpy().astype("S"), "utf-8")
    assert pieces.shape == (count, 1 if count == 1 else 2, 5)
    for row, text in enumerate(MASKED[:count]):
        expected, odds = expected_fillings(pretrained.model, tokenizer, text)
        assert pieces[row, : len(expected)].tolist() == expected
        assert (pieces[row, len(expected) :] == "").all()
        padded = np.zeros(pieces.shape[1:])
        padded[: len(odds)] = odds
        assert_close(outputs["probabilities"][row], padded)


def test_fill_mask_without_any_mask(pretrained):
    outputs = pretrained.signatures["fill_mask"](text=tf.constant(["No gap."]))
    assert outputs["pieces"].shape == [1, 0, 5]
    assert outputs["probabilities"].shape == [1, 0, 5]


@pytest.mark.parametrize("count", [1, 3])
def test_classify_pairs(of_pairs, tokenizer, count):
    outputs = of_pairs.signatures["serving_default"](
        text=tf.constant(TEXTS[:count]), text_pair=tf.constant(SECONDS[:count])
    )
    inputs = pack(tokenizer, TEXTS[:count], SECONDS[:count])
    check_classes(outputs, of_pairs.model(inputs)["logits"])


@pytest.mark.parametrize("count", [1, 3])
def test_classify_singles(of_singles, tokenizer, count):
    outputs = of_singles.signatures["serving_default"](
        text=tf.constant(TEXTS[:count])
    )
    inputs = pack(tokenizer, TEXTS[:count])
    check_classes(outputs, of_singles.model(inputs)["logits"])


def check_classes(outputs, logits):
    assert set(outputs) == {"label", "labels", "probabilities", "truncated"}
    assert outputs["labels"].shape == outputs["probabilities"].shape
    assert set(outputs["labels"].numpy().ravel()) == {
        label.encode() for label in LABELS
    }
    assert_close(outputs["probabilities"], tf.nn.softmax(logits))
    best = logits.numpy().argmax(-1)
    expected = [LABELS[index].encode() for index in best]
    assert outputs["label"].numpy().tolist() == expected


def test_long_pairs_are_cut_as_in_training(of_pairs, tokenizer):
    first, second = " ".join(TEXTS * 4), " ".join(TEXTS * 2)
    outputs = of_pairs.signatures["serving_default"](
        text=tf.constant([first]), text_pair=tf.constant([second])
    )
    inputs = pack(tokenizer, [first], [second])
    check_classes(outputs, of_pairs.model(inputs)["logits"])


@pytest.mark.parametrize("count", [1, 3])
def test_regression(of_numbers, tokenizer, count):
    outputs = of_numbers.signatures["serving_default"](
        text=tf.constant(TEXTS[:count]), text_pair=tf.constant(SECONDS[:count])
    )
    inputs = pack(tokenizer, TEXTS[:count], SECONDS[:count])
    expected = of_numbers.model(inputs)["logits"]
    assert set(outputs) == {"score", "truncated"}
    assert_close(outputs["score"], expected[:, 0])
    by_ids = of_numbers.signatures["tokens"](**inputs)
    assert_close(by_ids["logits"], expected)
    assert_close(by_ids["probabilities"], tf.ones([count, 1]))


def test_embeddings_of_a_bare_encoder(bare, tokenizer):
    outputs = bare.signatures["serving_default"](text=tf.constant(TEXTS))
    expected = bare.model(pack(tokenizer, TEXTS))
    assert_close(outputs["pooled_output"], expected["pooled_output"])


QUESTIONS = [
    # Article, question, options; too long, a gap, two gaps, filled up.
    (" ".join(TEXTS * 2), "Why?", ("It rains.", "No.", "", "The ferry waits.")),
    ("It rains.", "In the _ it rains.", ("north", "south", "old", "harbour")),
    ("", "_ and _", ("It", "The old harbour waits in the north", "We", "1")),
    ("Wet.", "_", ("a", "", "", "")),
    ("Wet.", "It is\uff3f.", (" old", "\uff57et", "\ufe4f", " ")),
]


def is_cut(example, tokenizer):
    """Whether an article, or an option with its question, is too long."""
    article = len(tokenizer.encode(example.article))
    task = race.RaceTask(tokenizer, MAX_SEQ_LENGTH, RACE)
    choices = task.choices(example)
    choices = [len(tokenizer.encode(choice)) for choice in choices]
    longest = RACE.max_qa_length
    return any(
        c > longest or article > MAX_SEQ_LENGTH - 3 - min(c, longest)
        for c in choices
    )


def test_choices(of_choices, tokenizer):
    """The same as features made in Python, for articles of all kinds."""
    outputs = of_choices.signatures["serving_default"](
        article=tf.constant([q[0] for q in QUESTIONS]),
        question=tf.constant([q[1] for q in QUESTIONS]),
        options=tf.constant([q[2] for q in QUESTIONS]),
    )
    task = race.RaceTask(tokenizer, MAX_SEQ_LENGTH, RACE)
    examples = [
        race.Example("", "", a, q, tuple(o for o in options if o), 0)
        for a, q, options in QUESTIONS
    ]
    (values,) = task.featurize(examples, base.PREDICT)
    ids = {name: tf.constant(values[name], tf.int32) for name in IDS}
    # Python fills up at the end, so the third option of the first is the last.
    order = tf.constant([[0, 1, 3, 2]] + [[0, 1, 2, 3]] * 4)
    ids = {k: tf.gather(v, order, batch_dims=1) for k, v in ids.items()}
    logits = of_choices.model(ids)["logits"]
    assert_close(outputs["probabilities"], tf.nn.softmax(logits))
    best = logits.numpy().argmax(-1)
    assert outputs["choice"].numpy().tolist() == best.tolist()
    letters = [b"ABCD"[i : i + 1] for i in best]
    assert outputs["label"].numpy().tolist() == letters
    cut = [is_cut(example, tokenizer) for example in examples]
    assert outputs["truncated"].numpy().tolist() == cut
    assert len(set(cut)) == 2
    by_ids = of_choices.signatures["tokens"](**ids)
    assert_close(by_ids["logits"], logits)
    assert by_ids["sequence_output"].shape == [5, 4, MAX_SEQ_LENGTH, 16]
    assert by_ids["pooled_output"].shape == [5, 4, 16]


SAVED = [
    "pretrained",
    "bare",
    "of_pairs",
    "of_singles",
    "of_numbers",
    "of_choices",
]


@pytest.mark.parametrize("name", SAVED)
def test_an_empty_batch_gives_empty_outputs(request, name):
    saved = request.getfixturevalue(name)
    samples = saved.service.samples()
    assert samples.keys() == saved.signatures.keys()
    for signature, arguments in samples.items():
        none = {k: v[:0] for k, v in arguments.items()}
        for value in saved.signatures[signature](**none).values():
            assert value.shape[0] == 0


@pytest.mark.parametrize("name", SAVED)
def test_what_is_not_utf8_gives_the_answer_for_its_replacement(request, name):
    saved = request.getfixturevalue(name)
    for signature, arguments in saved.service.samples().items():
        for bad, mended in ((b"a \xff b", "a \ufffd b"), (b"\xc3", "\ufffd")):
            answers = [
                saved.signatures[signature](
                    **{
                        k: tf.fill(v.shape, x) if v.dtype == tf.string else v
                        for k, v in arguments.items()
                    }
                )
                for x in (bad, mended)
            ]
            for key, value in answers[0].items():
                np.testing.assert_array_equal(value, answers[1][key])


def test_options_of_another_shape_are_refused(of_choices):
    """TensorFlow itself would take them, and mix them up."""
    choose = of_choices.signatures["serving_default"]
    for articles, questions, options, message in (
        (2, 2, np.full([4, 2], "a"), "options must be 4 for each article"),
        (1, 1, np.full([2, 2], "a"), "options must be 4 for each article"),
        (1, 2, np.full([1, 4], "a"), "as many questions as articles"),
        (4, 4, np.full([4], "a"), "options must be 4 for each article"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            choose(
                article=tf.constant(["a"] * articles),
                question=tf.constant(["q"] * questions),
                options=tf.constant(options),
            )


@pytest.mark.parametrize("name", ["pretrained", "of_choices"])
@pytest.mark.parametrize("wrong", ["input_mask", "segment_ids"])
def test_masks_and_segments_must_be_shaped_as_ids(request, name, wrong):
    """TensorFlow itself would spread one row over all of them."""
    saved = request.getfixturevalue(name)
    twice = {
        key: tf.repeat(value, 2, 0)
        for key, value in saved.service.samples()["tokens"].items()
    }
    twice[wrong] = twice[wrong][:1]
    message = f"{wrong} must have the shape of input_ids"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        saved.signatures["tokens"](**twice)


@pytest.mark.parametrize("name", ["pretrained", "of_singles", "of_pairs"])
def test_texts_of_two_axes_are_refused(request, name):
    """TensorFlow itself would take them, and answer in another order."""
    saved = request.getfixturevalue(name)
    texts = {
        key: tf.repeat(value[:, None], 2, 1)
        for key, value in saved.service.samples()["serving_default"].items()
    }
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"must be \[batch"
    ):
        saved.signatures["serving_default"](**texts)


@pytest.mark.parametrize("shape", [[1, 1], []])
def test_texts_that_could_be_broadcast_are_refused(of_singles, shape):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"must be \[batch"
    ):
        of_singles.signatures["serving_default"](text=tf.fill(shape, "a"))


@pytest.mark.parametrize("wrong", ["input_mask", "segment_ids"])
def test_a_row_for_a_square_of_ids_is_refused(pretrained, wrong):
    ids = {name: tf.ones([8, 8], tf.int32) for name in IDS}
    ids[wrong] = tf.ones([8], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="shape|rank"):
        pretrained.signatures["tokens"](**ids)


def test_positions_are_as_many_as_sequences(pretrained):
    sample = pretrained.service.samples()["mlm"]
    twice = {key: tf.repeat(value, 2, 0) for key, value in sample.items()}
    twice["mlm_positions"] = twice["mlm_positions"][:1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="mlm_positions"):
        pretrained.signatures["mlm"](**twice)


def test_pairs_must_be_as_many(of_pairs):
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many of"):
        of_pairs.signatures["serving_default"](
            text=tf.constant(["a"]), text_pair=tf.constant(["a", "b"])
        )


@pytest.mark.parametrize("name", ["pretrained", "of_choices"])
def test_ids_without_positions_are_refused(request, name):
    saved = request.getfixturevalue(name)
    arguments = saved.service.samples()["tokens"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="no position"):
        saved.signatures["tokens"](
            **{k: v[..., :0] for k, v in arguments.items()}
        )


# The files.


@pytest.mark.parametrize("name", SAVED)
def test_a_stranger_gets_the_same_answers(request, tmp_path, name):
    saved = request.getfixturevalue(name)
    arguments = {}
    for signature, function in saved.signatures.items():
        for argument in function.structured_input_signature[1]:
            value = example(argument)
            if name == "of_choices" and signature == "tokens":
                value = np.repeat(value[:, None], 4, 1)
            arguments[f"{signature}|{argument}"] = value
    ask(saved, tmp_path, arguments)


def type_of(values):
    """The type of what lies at the bottom of nested lists."""
    return type(np.asarray(values).flat[0].item())


def example(argument):
    values = {
        "text": MASKED,
        "text_pair": SECONDS,
        "article": TEXTS,
        "question": MASKED,
        "options": [["a", "b", "", "c d"]] * 3,
        "mlm_positions": [[1, 2], [0, 3], [4, 1]],
        "input_mask": [[1] * 6] * 3,
        "segment_ids": [[0, 0, 0, 1, 1, 1]] * 3,
        "input_ids": np.arange(18).reshape(3, 6) + 20,
    }[argument]
    return np.array(values, np.int32 if type_of(values) is int else None)


def ask(saved, folder, arguments):
    """Call signatures in a process of its own; compare with this one."""
    np.savez(folder / "arguments.npz", **arguments)
    subprocess.run(
        [sys.executable, "-c", STRANGER]
        + [str(saved.path), str(folder / "arguments.npz")]
        + [str(folder / "answers.npz")],
        cwd=folder,
        # This package asks for Keras 2; a stranger would not.
        env={k: v for k, v in os.environ.items() if "KERAS" not in k},
        check=True,
        timeout=120,
    )
    answers = dict(np.load(folder / "answers.npz"))
    for name in {key.split("|")[0] for key in arguments}:
        own = saved.signatures[name](
            **{
                key.split("|")[1]: tf.constant(value)
                for key, value in arguments.items()
                if key.startswith(f"{name}|")
            }
        )
        for key, value in own.items():
            answer = answers.pop(f"{name}|{key}")
            if value.dtype == tf.string:
                expected = value.numpy().astype("S")
                np.testing.assert_array_equal(answer, expected)
            else:
                assert_close(answer, value)
    assert not answers


@pytest.mark.parametrize("name", SAVED)
def test_files_hold_little_beside_weights_and_vocabulary(
    request, tokenizer, name
):
    saved = request.getfixturevalue(name)
    size = sum(p.stat().st_size for p in saved.path.rglob("*") if p.is_file())
    weights = sum(4 * int(tf.size(v)) for v in saved.model.variables)
    vocabulary = VOCABULARY_COPIES * len(tokenizer.model_bytes)
    assert size <= 1.1 * weights + vocabulary + GRAPH_BYTES
    assert len(saved.loaded.weights) == len(saved.model.variables)


def test_layers_of_base_are_stored_once(tokenizer, tmp_path):
    """All but the words' table has the size of albert-base."""
    config = modeling.AlbertConfig(
        vocab_size=400,
        hidden_size=768,
        num_attention_heads=12,
        intermediate_size=3072,
    )
    encoder = modeling.AlbertModel(config)
    service = encoder_service.EncoderService(encoder, tokenizer, MAX_SEQ_LENGTH)
    saved_model.save(service, str(tmp_path / "model"))
    weights = sum(4 * int(tf.size(v)) for v in encoder.variables)
    vocabulary = len(tokenizer.model_bytes)
    files = (tmp_path / "model").rglob("*")
    size = sum(p.stat().st_size for p in files if p.is_file())
    assert size <= 1.1 * (weights + vocabulary)


@pytest.mark.parametrize(
    "ids, message",
    [
        (tf.ones([2], tf.int32), "shape|rank|dimension"),
        (tf.ones([2, 3], tf.int64), "expected to be a int32 .* is a int64"),
    ],
)
def test_wrong_rank_and_wrong_dtype_are_named(pretrained, ids, message):
    ones = tf.ones([2, 3], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        pretrained.signatures["tokens"](
            input_ids=ids, input_mask=ones, segment_ids=ones
        )


@pytest.mark.parametrize("name", ["pretrained", "of_choices"])
def test_without_text_nothing_of_tensorflow_text_is_needed(
    request, tmp_path, name
):
    saved = request.getfixturevalue(name)
    path = str(tmp_path / "model")
    saved_model.save(saved.service, path, with_text=False)
    script = """
import sys
sys.modules["tensorflow_text"] = None
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
assert "tokens" in model.signatures, model.signatures
assert "serving_default" not in model.signatures, model.signatures
"""
    subprocess.run(
        [sys.executable, "-c", script, path],
        env={k: v for k, v in os.environ.items() if "KERAS" not in k},
        check=True,
        timeout=120,
    )
    loaded = tf.saved_model.load(path)
    sample = saved.service.samples()["tokens"]
    answers = loaded.signatures["tokens"](**sample)
    for key, value in saved.signatures["tokens"](**sample).items():
        assert_close(answers[key], value)
