"""Exported folders in transformers, against our models: `make test-torch`."""

import dataclasses

import pytest
import tensorflow as tf

from albert_tf import convert_checkpoint
from albert_tf.finetuning import registry
from albert_tf.model.checkpoints import restoring
from albert_tf.model.heads import pretraining
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import make, source, source_options
from albert_tf.serving.formats import hub_folder
from albert_tf.serving.services import encoder_service
from albert_tf.tasks.tagging import task as tagging
from albert_tf.text import tokenization
from tests.albert_tf.model import passes
from tests.conftest import FIXTURES, tiny_config
from tests.parity import their_models
from tests.parity.conftest import assert_close

pytestmark = pytest.mark.torch
LENGTH = 96
TEXTS = [
    "Mara gave Ivo the [MASK].",
    "[MASK] slept at the mill – Ivo's “lamp”, 1,024 ropes.",
    "Café [CLS] <pad>\u00a0in\u200b the [MASK] and the boat",
]
VOCABULARIES = {"spm_model_file": "spm.model", "vocab_file": "vocab.txt"}
OWN = FIXTURES / "own_text"
OPTIONS = {
    "rte": {},
    "sts-b": {},
    "race": {"max_qa_length": 16},
    "squad": {
        "squad_version": "1.1",
        "max_query_length": 16,
        "doc_stride": 16,
    },
}


@pytest.fixture(params=VOCABULARIES)
def vocabulary(request):
    path = OWN / VOCABULARIES[request.param]
    return tokenization.VocabularyOptions(**{request.param: str(path)})


@pytest.fixture
def spm():
    return tokenization.VocabularyOptions(str(OWN / "spm.model"))


def make_encoder(tokenizer):
    config = tiny_config(
        vocab_size=tokenizer.vocab_size,
        num_hidden_layers=2,
        max_position_embeddings=LENGTH,
    )
    return AlbertModel(config)


def export(folder, model, vocabulary, tokenizer, task=None, length=None):
    """Write a folder from a model whose weights are not at their starts."""
    weights = passes.values(passes.fill(model, 0.3))
    config = getattr(model, "encoder", model).config
    details = hub_folder.details_of(task) if task else None
    hub_folder.write(
        str(folder),
        hub_folder.HubModel(
            config, weights, vocabulary, tokenizer, details, None, length
        ),
    )
    return str(folder)


def finetuned(folder, vocabulary, name):
    """Export the model of a task; return task, model and folder."""
    tokenizer = tokenization.load(vocabulary)
    values = {"task_name": name, "max_seq_length": LENGTH, **OPTIONS[name]}
    task = registry.make(values, tokenizer)
    model = task.make_model(make_encoder(tokenizer))
    return task, model, export(folder, model, vocabulary, tokenizer, task)


def load(folder, architecture):
    import transformers

    model, _ = their_models.load(folder, architecture)
    assert model.config.architectures == [architecture]
    return transformers.AutoTokenizer.from_pretrained(folder), model


def service_of(task, model):
    service = make.of_task(task, model.encoder)
    for ours, theirs in zip(
        service.model.variables, model.variables, strict=True
    ):
        ours.assign(theirs)
    return service


def assert_same_answers(folder, pairs, service, labels):
    """What transformers' pipeline says of pairs is what a service says."""
    import transformers

    ours = service.answer(*map(tf.constant, zip(*pairs, strict=True)))
    pipeline = transformers.pipeline("text-classification", folder)
    theirs = pipeline(
        [{"text": one, "text_pair": other} for one, other in pairs], top_k=None
    )
    for row, answers in zip(ours["probabilities"], theirs, strict=True):
        scores = {answer["label"]: answer["score"] for answer in answers}
        assert scores.keys() == set(labels)
        assert_close(row, [scores[label] for label in labels])
    return ours


def test_fill_mask_gives_our_pieces(tmp_path, vocabulary):
    import transformers

    tokenizer = tokenization.load(vocabulary)
    encoder = make_encoder(tokenizer)
    model = pretraining.AlbertPretrainer(encoder, True)
    service = encoder_service.PretrainedService(model, tokenizer, LENGTH)
    folder = export(tmp_path, service.model, vocabulary, tokenizer)
    pipeline = transformers.pipeline("fill-mask", folder)
    ours = service.fill_mask(tf.constant(TEXTS))
    for text, pieces, probabilities in zip(
        TEXTS, ours["pieces"], ours["probabilities"], strict=True
    ):
        theirs = pipeline(text, top_k=5)
        assert tokenizer.pieces_to_ids(
            piece.decode() for piece in pieces[0].numpy()
        ) == [answer["token"] for answer in theirs]
        assert_close(probabilities[0], [answer["score"] for answer in theirs])


def test_text_classification_gives_our_labels(tmp_path, vocabulary):
    task, model, folder = finetuned(tmp_path, vocabulary, "rte")
    pairs = [
        (text.replace("[MASK]", "rope"), other.replace("[MASK]", "lamp"))
        for text in TEXTS
        for other in TEXTS[:2]
    ]
    assert task.labels == ("entailment", "not_entailment")
    assert_same_answers(folder, pairs, service_of(task, model), task.labels)


def convert(source, target, name="huggingface", **changes):
    convert_checkpoint.run(
        convert_checkpoint.ConvertOptions(
            from_=str(source), to=str(target), format=name, **changes
        )
    )
    return str(target)


PAIRS = [("a rope", "a lamp"), ("Ivo slept at the mill.", "the boat")]


def test_labels_of_transformers_reach_predictions_and_exports(
    tmp_path, vocabulary
):
    import transformers

    labels = ["schlecht, sehr", "gut", *(f"weder {i}" for i in range(10))]
    theirs = their_models.make(
        "AlbertForSequenceClassification",
        make_encoder(tokenization.load(vocabulary)).config,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    theirs.save_pretrained(str(tmp_path / "theirs"))
    given = source_options.SourceOptions(
        init_checkpoint=str(tmp_path / "theirs"),
        task="classifier",
        of_checkpoint=source_options.CheckpointOptions(pairs=True),
        vocabulary=vocabulary,
    )
    found = source.find(given)
    service = source.make_service(found, source.make_task(found))
    restoring.restore(service.model, found.checkpoint)
    folder = convert(
        tmp_path / "theirs", tmp_path / "hub", vocabulary=vocabulary
    )
    ours = assert_same_answers(folder, PAIRS, service, labels)
    assert [name.decode() for name in ours["labels"][0].numpy()] == labels
    config = transformers.AutoConfig.from_pretrained(folder)
    assert list(config.id2label.values()) == labels


WITHOUT_POOLER = (
    "AlbertForMaskedLM",
    "AlbertForQuestionAnswering",
    "AlbertForTokenClassification",
    "AlbertModel",
)


@pytest.mark.parametrize("way", ["huggingface", "tf1", "tf2"])
@pytest.mark.parametrize("saved", WITHOUT_POOLER)
def test_models_without_a_pooler_come_back_as_they_were(
    tmp_path, spm, saved, way
):
    import torch

    config = make_encoder(tokenization.load(spm)).config
    alone = {"add_pooling_layer": False} if saved == "AlbertModel" else {}
    theirs = their_models.make(saved, config, **alone)
    theirs.save_pretrained(str(tmp_path / "theirs"))
    there = convert(
        tmp_path / "theirs", tmp_path / way / "x", way, vocabulary=spm
    )
    folder = convert(there, tmp_path / "hub", vocabulary=spm)

    again, report = their_models.load(folder, saved, **alone)
    assert again.config.architectures == [saved]
    assert not any(map(report.get, ("missing_keys", "unexpected_keys")))
    ids = torch.tensor([[2, 9, 17, 33, 3]])
    with torch.no_grad():
        expected, actual = (model(ids)[0] for model in (theirs, again))
    assert_close(actual.numpy(), expected.numpy())


def test_regression_gives_our_number(tmp_path, vocabulary):
    import sentence_transformers
    import transformers

    task, model, folder = finetuned(tmp_path, vocabulary, "sts-b")
    service = service_of(task, model)
    pipeline = transformers.pipeline("text-classification", folder)
    score = service.answer(tf.constant(["a rope"]), tf.constant(["a lamp"]))
    answer = pipeline({"text": "a rope", "text_pair": "a lamp"})
    answer = answer if isinstance(answer, dict) else answer[0]
    assert_close(answer["score"], score["score"][0])
    crossing = sentence_transformers.CrossEncoder(folder, device="cpu")
    assert_close(crossing.predict([("a rope", "a lamp")]), score["score"])


@pytest.mark.parametrize("length", [16, None])
def test_long_texts_are_cut_as_in_training(tmp_path, vocabulary, length):
    """As the card calls it, beyond the run's length or the positions."""
    import transformers

    tokenizer = tokenization.load(vocabulary)
    values = {"task_name": "cola", "max_seq_length": length or LENGTH}
    task = registry.make(values, tokenizer)
    model = task.make_model(make_encoder(tokenizer))
    folder = export(tmp_path, model, vocabulary, tokenizer, task, length)
    card = (tmp_path / "README.md").read_text()
    assert 'model("It is here.", truncation=True)' in card
    assert f"at most {length or LENGTH} tokens" in card
    pipeline = transformers.pipeline("text-classification", folder)
    text = "Ivo slept at the mill. " * 40
    ours = service_of(task, model).answer(tf.constant([text]))
    answers = pipeline(text, truncation=True, top_k=None)
    scores = {answer["label"]: answer["score"] for answer in answers}
    labels = [scores[label] for label in task.labels]
    assert_close(ours["probabilities"][0], labels)


def test_spans_begin_at_their_words(tmp_path, vocabulary):
    import transformers

    tokenizer = tokenization.load(vocabulary)
    tags = tagging.TaggingOptions("B-x\tI-x\tB-y")
    task = tagging.TaggingTask(tokenizer, LENGTH, tags)
    model = task.make_model(make_encoder(tokenizer))
    folder = export(tmp_path, model, vocabulary, tokenizer, task)
    pipeline = transformers.pipeline("token-classification", folder)
    text = "Mara  met (Caf\u00e9) Clark\tand\u00a0Ivo."
    spans = pipeline(text)
    assert {text[span["start"] :][:4] for span in spans} > {
        "Mara",
        "met ",
        "Clar",
    }
    for span in spans:
        part = text[span["start"] : span["end"]]
        assert part == part.strip() != ""


def test_question_answering_gives_our_logits(tmp_path, vocabulary):
    import torch

    task, model, folder = finetuned(tmp_path, vocabulary, "squad")
    tokenizer, theirs = load(folder, "AlbertForQuestionAnswering")
    question, context = "Who slept?", "Ivo slept at the mill. Mara did not."
    inputs = tokenizer(question, context, return_tensors="pt")
    encode = task.tokenizer.encode
    cls, sep = task.tokenizer.cls_id, task.tokenizer.sep_id
    ids = [cls, *encode(question), sep, *encode(context), sep]
    assert inputs["input_ids"][0].tolist() == ids
    ours = model(
        {n: tf.constant(v.numpy(), tf.int32) for n, v in inputs.items()}
    )
    with torch.no_grad():
        outputs = theirs(**inputs)
    for name in ("start_logits", "end_logits"):
        assert_close(ours[name], outputs[name].numpy())


def test_multiple_choice_gives_our_logits(tmp_path, vocabulary):
    import torch

    _, model, folder = finetuned(tmp_path, vocabulary, "race")
    tokenizer, theirs = load(folder, "AlbertForMultipleChoice")
    options = ["at the mill", "on the boat", "nowhere", "here"]
    inputs = tokenizer(
        ["Ivo slept."] * 4, options, padding=True, return_tensors="pt"
    )
    inputs = {name: value[None] for name, value in inputs.items()}
    with torch.no_grad():
        logits = theirs(**inputs)["logits"].numpy()
    batch = {n: tf.constant(v.numpy(), tf.int32) for n, v in inputs.items()}
    assert_close(model(batch)["logits"], logits)


def test_tokenizer_that_is_saved_again_gives_the_same_ids(tmp_path, vocabulary):
    import transformers

    tokenizer = tokenization.load(vocabulary)
    encoder = make_encoder(tokenizer)
    folder = export(tmp_path / "hub", encoder, vocabulary, tokenizer)
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
    loaded.save_pretrained(str(tmp_path / "again"))
    again = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "again"))
    for text in TEXTS:
        expected = tokenizer.encode_with_masks(text)
        for one in (loaded, again):
            ids = one(text, add_special_tokens=False)["input_ids"]
            assert ids == expected
    assert loaded.mask_token_id == tokenizer.mask_id
    assert loaded.pad_token_id == tokenizer.pad_id
    assert loaded.model_max_length == 96
    ids = loaded("the rope", "a lamp")["input_ids"]
    assert loaded.decode(ids, skip_special_tokens=True) == "the rope a lamp"


@pytest.mark.parametrize("keep_accents", [True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_classes_of_transformers_read_the_casing(
    tmp_path, vocabulary, lower, keep_accents
):
    """They make rules of their own from tokenizer_config.json."""
    import transformers

    vocabulary = dataclasses.replace(
        vocabulary, do_lower_case=lower, keep_accents=keep_accents
    )
    tokenizer = tokenization.load(vocabulary)
    folder = export(tmp_path, make_encoder(tokenizer), vocabulary, tokenizer)
    name = "Bert" if vocabulary.vocab_file else "Albert"
    theirs = getattr(transformers, f"{name}Tokenizer").from_pretrained(folder)
    for text in ("Müller", "MÜLLER", "muller", "Der Café ist geschlossen."):
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert ids == tokenizer.encode(text), text


def test_hub_reads_the_card(tmp_path, vocabulary):
    import huggingface_hub

    _, _, folder = finetuned(tmp_path, vocabulary, "rte")
    card = huggingface_hub.ModelCard.load(f"{folder}/README.md")
    assert card.data.pipeline_tag == "text-classification"
    assert card.data.library_name == "transformers"
