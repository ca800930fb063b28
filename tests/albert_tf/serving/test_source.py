"""What options, runs and checkpoints say about an export, without weights."""

import dataclasses
import types

import pytest

from albert_tf.common import options
from albert_tf.common.packed_vectors import VectorOptions
from albert_tf.model.checkpoints import huggingface, sentence_modules
from albert_tf.serving import source, source_options
from albert_tf.text import tokenization, wordpiece
from albert_tf.training import run_folder
from tests.conftest import changed, refused, tiny_config

VOCABULARY = tokenization.VocabularyOptions


@pytest.fixture
def run(monkeypatch, tiny_vocab):
    """A folder of a run that says what it is told to say."""
    known = types.SimpleNamespace(
        config=tiny_config(),
        folder="r",
        options={"max_seq_length": 32, "objective": "mlm"},
        vocabulary=VOCABULARY(tiny_vocab),
        vocab_sha256=None,
        facts={},
    )
    monkeypatch.setattr(run_folder, "read", lambda folder: known)
    monkeypatch.setattr(run_folder, "is_run", lambda folder: True)
    return known


def options_of(vocabulary=None, **values):
    found = options.from_dict(source_options.SourceOptions, values)
    return dataclasses.replace(found, vocabulary=vocabulary or VOCABULARY())


def find(**values):
    return source.find(options_of(run_dir="r", **values))


def test_a_run_says_everything(run, tiny_vocab):
    found = find()
    assert found.config is run.config
    assert found.vocabulary.path == tiny_vocab
    assert (found.checkpoint, found.option) == ("r", "run_dir")
    assert found.values["task"] == "pretraining"
    assert found.values["max_seq_length"] == 32


def test_given_options_come_first(run):
    found = find(checkpoint="model.ckpt-3", max_seq_length=16, task="encoder")
    assert (found.checkpoint, found.option) == ("model.ckpt-3", "checkpoint")
    assert found.values["max_seq_length"] == 16
    assert found.values["task"] == "encoder"


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({}, "pretraining"),
        ({"objective": "plm"}, "encoder"),
        ({"objective": "rtd", "generator_sharing": "all"}, "pretraining"),
        ({"objective": "rtd", "generator_sharing": "none"}, "encoder"),
    ],
)
def test_only_heads_for_words_that_are_kept_are_exported(run, more, kind):
    run.options |= more
    assert find().values["task"] == kind


@pytest.mark.parametrize(
    ("task", "length"),
    [("encoder", 512), ("squad", 384), ("embedding", 99), ("classifier", 512)],
)
def test_what_a_checkpoint_says(monkeypatch, tiny_vocab, task, length):
    checkpoint = types.SimpleNamespace(
        path="f/m",
        config=tiny_config(max_position_embeddings=512),
        projection_size=7,
        shapes={"output_weights": [3, 16], "cls/seq_relationship/x": []},
    )
    details = types.SimpleNamespace(labels=("a", "b", "c"))
    modules = sentence_modules.Modules("max", 99)
    reader, folder = source.checkpoint_reader, huggingface
    monkeypatch.setattr(reader, "read", lambda path: checkpoint)
    monkeypatch.setattr(reader, "modules_beside", lambda path: modules)
    monkeypatch.setattr(folder, "is_folder", lambda path: True)
    monkeypatch.setattr(folder, "read_details", lambda path: details)
    given = {"init_checkpoint": "f", "vocabulary": VOCABULARY(tiny_vocab)}
    found = source.find(options_of(task=task, **given))
    assert (found.checkpoint, found.option) == ("f/m", "init_checkpoint")
    assert found.vocabulary.path == tiny_vocab
    expected = {
        "task": task,
        "max_seq_length": length,
        "num_labels": 3,
        "has_sentence_order": False,
    }
    assert found.values.items() >= expected.items()
    short = options_of(task=task, max_seq_length=8, **given)
    assert source.find(short).values["max_seq_length"] == 8
    tagger = options_of(task="tagging", **given)
    assert source.make_task(source.find(tagger)).labels == ("a", "b", "c")
    checkpoint.config = None
    with refused("`init_checkpoint=f` has no c"):
        source.find(tagger)


def squad_of(version):
    return {
        "task_name": "squad",
        "squad_version": version,
        "doc_stride": 128,
        "start_n_top": 5,
    }


def test_a_finetuned_run_takes_options_of_its_own_task(run):
    run.options |= squad_of("2.0")
    found = find(doc_stride=64, start_n_top=3)
    assert found.values["task"] == "finetuned"
    assert (found.values["doc_stride"], found.values["start_n_top"]) == (64, 3)


def test_a_run_with_a_prompt_may_get_others(run):
    run.options |= {"task_name": "embedding", "max_seq_length": 16}
    texts = '{"query": "q: "}'
    run.options |= {"prompts": texts, "prompt": "query"}
    run.facts |= {"prompts": texts, "prompt": "query"}
    for given, before in (
        ({}, "q: "),
        ({"prompt": ""}, ""),
        ({"prompts": "{}"}, ""),
        ({"prompts": '{"a": "b: "}', "prompt": "a"}, "b: "),
    ):
        task = source.make_task(find(**given))
        assert task.prompts.before == before


def test_a_run_of_vectors_may_be_pooled_otherwise(run):
    run.options |= {"task_name": "embedding", "text_pooling": None}
    run.facts |= {"text_pooling": "mean", "projection_size": 4}
    for given in ({}, {"text_pooling": "max"}):
        facts = source.make_task(find(**given)).facts
        assert facts.text_pooling == given.get("text_pooling", "mean")
        assert facts.projection_size == 4
    # Runs of earlier versions say nothing of these.
    task = source.make_task(find(dimensions=3, vector_precision="int8"))
    assert task.given_out == VectorOptions(3, "int8")
    run.options |= {"dimensions": 2, "vector_precision": "int8"}
    task = source.make_task(find(vector_precision="float32"))
    assert task.given_out == VectorOptions(2, "float32")
    with refused("`dimensions=5` is more than a vector has, 4"):
        source.make_task(find(dimensions=5))


@pytest.mark.parametrize(
    ("version", "given", "message"),
    [
        (
            "2.0",
            {"num_options": 3},
            "=3` is for race, .*one of squad",
        ),
        ("2.0", {"task": "encoder", "doc_stride": 64}, "but .* one of encoder"),
        ("1.1", {"start_n_top": 3}, "`start_n_top=3` is for SQuAD 2"),
        (
            "1.1",
            {"squad_version": "2.0"},
            "`squad_version=2.0`, but `run_dir=r` was trained for 1.1",
        ),
    ],
)
def test_options_of_other_kinds_are_refused_for_runs(
    run, version, given, message
):
    run.options |= squad_of(version)
    with refused(message):
        find(**given)
    assert find(squad_version=version).values["squad_version"] == version


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start_n_top": 3}, "`start_n_top=3` is for SQuAD 2.0"),
        ({"num_options": 3}, "`num_options=3` is for race, but .* squad"),
    ],
)
def test_options_of_other_kinds_are_refused_for_checkpoints(changes, message):
    settings = options_of(
        init_checkpoint="nowhere", task="squad", squad_version="1.1", **changes
    )
    with refused(message):
        source.find(settings)


def test_mistyped_checkpoint_is_named(tmp_path):
    settings = options_of(
        init_checkpoint=str(tmp_path / "albert_hff"), task="encoder"
    )
    with refused("albert_hff` is neither a folder nor"):
        source.find(settings)


def test_missing_vocabulary_of_a_run_is_asked_for(run, tiny_vocab):
    run.vocabulary = VOCABULARY()
    with refused("`run_dir=r` has no copy of"):
        find()
    found = find(vocabulary=VOCABULARY(tiny_vocab))
    assert found.vocabulary.path == tiny_vocab


def test_vocabulary_is_used_as_the_run_used_it(run, undescribed_vocab):
    known = VOCABULARY(undescribed_vocab, do_lower_case=False)
    given = VOCABULARY(undescribed_vocab)
    found = source.choose_vocabulary(given, known, "r")
    assert found.path == undescribed_vocab
    assert found.resolved().do_lower_case is False
    with refused(
        "`do_lower_case=true`, but the run in r was trained with false",
    ):
        source.choose_vocabulary(VOCABULARY(do_lower_case=True), known, "r")


def test_given_vocabulary_outside_of_runs_is_used_as_given(
    monkeypatch, undescribed_vocab
):
    monkeypatch.setattr(run_folder, "is_run", lambda folder: False)
    given = VOCABULARY(undescribed_vocab, keep_accents=True)
    found = source.choose_vocabulary(given, VOCABULARY(), "folder")
    assert (found.path, found.keep_accents) == (undescribed_vocab, True)


@pytest.mark.parametrize("is_run", [True, False])
@pytest.mark.parametrize("other", ["b", "a b"])
def test_given_vocabulary_is_the_one_that_a_folder_has(
    monkeypatch, tmp_path, undescribed_vocab, is_run, other
):
    """Also where both are of one size."""
    monkeypatch.setattr(run_folder, "is_run", lambda folder: is_run)
    options = {}
    for name, last in (("known", "a"), ("copy", "a"), ("other", other)):
        path = tmp_path / f"{name}.txt"
        pieces = [*wordpiece.SPECIAL_PIECES, *last.split()]
        path.write_text("\n".join(pieces) + "\n")
        options[name] = VOCABULARY(vocab_file=str(path))
    known = options["known"]
    (its,) = run_folder.vocab_hashes(known).values()
    monkeypatch.setattr(run_folder, "folder_vocab_hashes", lambda folder: its)
    found = source.choose_vocabulary(options["copy"], known, "r")
    assert found.path == options["copy"].path
    for given in (options["other"], VOCABULARY(undescribed_vocab)):
        message = f"{given.path}` has another vocabulary .* the model in r "
        with refused(message):
            source.choose_vocabulary(given, known, "r")


@pytest.mark.parametrize(
    "length, message",
    [
        (65, "`max_seq_length=65` is longer than the"),
        (3, "`max_seq_length=3` leaves no tokens .* at least 4"),
    ],
)
def test_lengths_that_no_text_fits(tiny_vocab, length, message):
    values = {"task": "encoder", "max_seq_length": length}
    found = source.Source(
        tiny_config(), VOCABULARY(tiny_vocab), "c", "init_checkpoint", values
    )
    with refused(message):
        source.make_task(found)
    values["max_seq_length"] = 4
    assert source.make_task(found) is None


def test_bare_checkpoint_of_a_task_gets_that_task(tiny_vocab):
    values = {"task": "race", "max_seq_length": 32, "max_qa_length": 8}
    found = source.Source(
        tiny_config(), VOCABULARY(tiny_vocab), "c", "init_checkpoint", values
    )
    task = source.make_task(found)
    assert (task.name, task.max_seq_length) == ("race", 32)


@pytest.mark.parametrize(
    "values",
    [
        {"task": "classifier", "pairs": True},
        {"task": "race", "max_qa_length": 8},
        {
            "task": "squad",
            "squad_version": "2.0",
            "max_query_length": 8,
            "doc_stride": 8,
        },
    ],
)
def test_a_model_of_one_segment_has_no_pairs(tiny_vocab, values):
    found = source.Source(
        tiny_config(type_vocab_size=1),
        VOCABULARY(tiny_vocab),
        "c",
        "init_checkpoint",
        {**values, "max_seq_length": 32},
    )
    with refused("type_vocab_size 1"):
        source.make_task(found)


@pytest.mark.parametrize(
    ("exits", "depth", "alone", "adaptive"),
    [
        (None, None, (4,), (1, 2, 3, 4)),
        (None, 3, (3,), (1, 2, 3)),
        ("1,3", None, (1, 3, 4), (1, 3, 4)),
        ("1,3", 3, (1, 3), (1, 3)),
        ("1,3", 2, (1, 2), (1, 2)),
    ],
)
def test_depths_are_those_that_were_trained(run, exits, depth, alone, adaptive):
    run.config = changed(run.config, num_hidden_layers=4)
    given = dataclasses.replace(find(), values={"exit_layers": exits})
    given.values["depth"] = depth
    assert source.depths(given, adaptive=False) == alone
    assert source.depths(given, adaptive=True) == adaptive


def test_depths_that_were_not_trained_are_told(run, caplog):
    """Layers that differ have learnt to stand where they are."""
    for groups in (1, 2):
        run.config = changed(
            run.config, num_hidden_layers=4, num_hidden_groups=groups
        )
        given = dataclasses.replace(find(), values={"exit_layers": "2"})
        source.check_depths(given, (2, 4))
        assert not caplog.messages
        if groups == 1:
            source.check_depths(given, (1, 2, 3))
            (line,) = caplog.messages
            assert "answer after 2 and 4 layers, not after 1, 3: " in line
            caplog.clear()
    with refused("after 2 and 4 layers, not aft"):
        source.check_depths(given, (1, 4))
