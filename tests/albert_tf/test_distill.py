"""Students: of vectors, and of a finetuned teacher's answers."""

import re
import shutil

import numpy as np
import pytest

from albert_tf import distill, run_classifier
from albert_tf.common import errors, scores
from albert_tf.finetuning import finetuning_options, teacher, teacher_signal
from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.heads import from_checkpoint
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving import convert, source, source_options
from albert_tf.serving.convert_options import ConvertOptions
from albert_tf.tasks.embedding import task as embedding
from albert_tf.training import memory_check, run_checkpoints, run_folder
from tests import export_options, sentence_folders
from tests.albert_tf.finetuning import small_runs
from tests.albert_tf.model import passes
from tests.conftest import FIXTURES, changed, refused, tiny_config

STARTS = ("It rains", "The ferry waits", "We stay", "A boat", "She sings")
ENDS = ("in the north.", "again.", "here.", "at the old harbour.", "now.")
TEXTS = [f"{start} {end}" for start in STARTS for end in ENDS]


@pytest.fixture(scope="module")
def encoder(world, tmp_path_factory):
    """A teacher of another shape, with spread weights, in a folder."""
    folder = tmp_path_factory.mktemp("teacher")
    config = tiny_config(hidden_size=24, num_attention_heads=4)
    model = passes.fill(AlbertModel(config))
    model.save_weights(str(folder / "model.ckpt"))
    (folder / "albert_config.json").write_text(config.to_json())
    shutil.copy(world.vocabulary, folder / "spm.model")
    return folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "train.txt").write_text("\n".join(TEXTS) + "\n")
    rows = [
        f"{a}\t{b}\t{int(a[:5] == b[:5])}"
        for a, b in zip(TEXTS, TEXTS[::-1], strict=True)
    ]
    rows = ["text\ttext_pair\tscore", *rows]
    (folder / "dev.tsv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture
def options(world, encoder, texts):
    def options(folder, teacher=encoder, **values):
        settings = distill.DistillOptions(
            finetuning=small_runs.shared(
                world, folder, max_seq_length=24, do_predict=False
            ),
            teacher=str(teacher),
            train_file=str(texts / "train.txt"),
            dev_file=str(texts / "dev.tsv"),
        )
        return changed(settings, **values)

    return options


def losses(folder, name="vector_loss"):
    return [row[name] for row in small_runs.metrics(folder, "train")]


@pytest.mark.slow
def test_student_gets_the_vectors_of_its_teacher(
    world, options, encoder, texts, tmp_path
):
    """It is as wide as they are, and a teacher itself."""
    folder = tmp_path / "student"
    often = {"save_checkpoints_steps": 60, "iterations_per_loop": 60}
    distill.run(options(folder, train_step=120, learning_rate=1e-2, **often))
    first, last = losses(folder)
    assert last < first / 2
    assert run_folder.read(str(folder)).facts["projection_size"] == 24
    assert "spearmanr" in scores.read(str(folder)).best.scores

    asked = teacher.open_teacher(str(folder), embedding_task(world))
    known = teacher.open_teacher(str(encoder), embedding_task(world))
    examples = asked.task.read(str(texts / "train.txt"), "train")
    one, other = (t.outputs(examples)["embedding"] for t in (asked, known))
    assert (one * other).sum(-1).mean() > 0.9


def embedding_task(world):
    tokenizer = finetuning_options.load_tokenizer(
        small_runs.shared(world, "unused")
    )
    wanted = embedding.EmbeddingOptions(train_examples="texts")
    return embedding.EmbeddingTask(tokenizer, 24, wanted)


@pytest.mark.slow
def test_kept_outputs_teach_as_the_teacher(
    world, options, encoder, texts, tmp_path
):
    folders = tmp_path / "one", tmp_path / "other"
    teachers = [encoder]
    for folder in folders:
        wanted = options(folder, teachers[-1])
        distill.run(changed(wanted, word_embeddings="random", do_eval=False))
        teachers += folder.glob("teacher-*")
    assert len(teachers) == 2
    one, other = (checkpoint_reader.read(str(folder)) for folder in folders)
    np.testing.assert_equal(one.load(one.shapes), other.load(one.shapes))
    served = tmp_path / "served"
    given = {"init_checkpoint": encoder / "model.ckpt", "max_seq_length": 24}
    export_options.exported(served, task="embedding", **given)
    asked = teacher.open_teacher(str(served), embedding_task(world))
    known = teacher.open_teacher(str(encoder), embedding_task(world))
    examples = asked.task.read(str(texts / "train.txt"), "train")
    one, other = (t.outputs(examples)["embedding"] for t in (asked, known))
    np.testing.assert_allclose(one, other, atol=1e-5)
    given = {"word_embeddings": "random", "do_eval": False}
    distill.run(changed(options(tmp_path / "second", served), **given))
    (kept,) = (tmp_path / "second").glob("teacher-*")
    assert teacher_signal.describe_vectors(
        str(kept)
    ) == teacher_signal.describe_vectors(str(served))

    wanted = options(tmp_path / "third", teachers[1])
    with refused("no word embeddings"):
        distill.run(wanted)
    assert not (tmp_path / "third").exists()


def test_new_student_has_the_words_of_its_teacher(options, encoder, tmp_path):
    """Both have 8 numbers for each piece: nothing is left out."""
    folder = tmp_path / "student"
    given = {"train_step": 1, "learning_rate": 1e-9, "do_eval": False}
    distill.run(options(folder, **given))
    name = "bert/embeddings/word_embeddings"
    found, wanted = (
        checkpoint_reader.read(str(place)).load([name])[name]
        for place in (folder, encoder)
    )
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_states_of_two_texts_are_not_compared(options, tmp_path):
    (tmp_path / "t.tsv").write_text("text\tteacher_text\nJa.\tYes.\n")
    given = {"train_file": str(tmp_path / "t.tsv"), "hidden_weight": 1.0}
    with refused("`?hidden_weight.*its column `?teacher_text"):
        distill.run(options(tmp_path / "run", do_eval=False, **given))


def test_a_signal_is_what_the_options_say(options, monkeypatch):
    signals = []
    monkeypatch.setattr(
        distill.finetune, "run", lambda *_, signal, **__: signals.append(signal)
    )
    for changes, *expected in (
        ({}, "mean", True, False),
        ({"teacher_pooling": "cls"}, "cls", True, False),
        ({"word_embeddings": "random"}, "mean", False, False),
        ({"relation_weight": 1.0}, "mean", True, True),
    ):
        distill.run(options("unused", **changes))
        signal = signals.pop()
        pooling = signal.default_task.facts.text_pooling
        found = [pooling, signal.copies_embeddings, signal.uses_states]
        assert found == expected


def test_a_student_has_the_pooling_of_its_first_weights(
    options, tmp_path, monkeypatch
):
    found = []
    monkeypatch.setattr(
        distill.finetune,
        "run",
        lambda *_, task, **__: found.append(task.facts.text_pooling),
    )
    folder = tmp_path / "hub"
    shutil.copytree(FIXTURES / "huggingface_tiny", folder)
    sentence_folders.write(folder, ["Pooling"], {"pooling_mode": "cls"})
    for values in ({}, {"text_pooling": "max"}):
        given = {"init_checkpoint": str(folder), **values}
        distill.run(options("unused", **given))
    distill.run(options("unused"))
    assert found == ["cls", "max", "mean"]


def test_width_of_the_teacher_s_vectors_is_needed(options, tmp_path):
    wanted = options(tmp_path / "run", projection_size=5)
    with refused(r"`?projection_size.*teacher's vectors, 24"):
        distill.run(wanted)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_states_of_tokens_are_learned(options, tmp_path):
    wanted = options(
        tmp_path / "run",
        do_eval=False,
        hidden_weight=1.0,
        relation_weight=1e3,
        train_step=60,
        learning_rate=1e-2,
    )
    distill.run(wanted)
    for name in ("hidden_loss", "relation_loss"):
        first, *_, last = losses(tmp_path / "run", name)
        assert 0 < last < first / 1.5
    (stored,) = (tmp_path / "run").glob("teacher-*")
    kept = changed(
        wanted, output_dir=str(tmp_path / "kept"), teacher=str(stored)
    )
    with refused("`hidden_weight` and"):
        distill.run(kept)


@pytest.fixture(scope="module")
def rte(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rte") / "run"
    settings = small_runs.classifier(world, folder, do_predict=False)
    run_classifier.run(changed(settings, do_eval=False))
    return folder


def taught(settings, folder, **values):
    return changed(settings, teacher=str(folder), **values)


@pytest.mark.slow
def test_finetuned_teacher_has_a_share_in_the_loss(world, rte, tmp_path):
    """Without a share the run is the one without a teacher, bit by bit."""
    folders = [tmp_path / name for name in ("alone", "none", "all")]
    for folder, share in zip(folders, (None, 0.0, 1.0), strict=True):
        settings = small_runs.classifier(
            world, folder, do_eval=False, do_predict=False
        )
        if share is not None:
            settings = taught(settings, rte, teacher_weight=share)
        run_classifier.run(settings)
    weights = []
    for folder in folders:
        found = checkpoint_reader.read(str(folder / "model.ckpt-2"))
        weights.append(found.load(found.shapes))
    np.testing.assert_equal(weights[0], weights[1])
    assert any(
        (value != weights[2][name]).any() for name, value in weights[0].items()
    )


@pytest.mark.slow
def test_a_student_learns_at_several_depths(options, tmp_path):
    """They are known to the run; other losses are of the last layer alone."""
    folder = tmp_path / "student"
    settings = options(folder, num_hidden_layers=2, exit_layers="1")
    distill.run(settings)
    assert run_folder.read(str(folder)).options["exit_layers"] == "1"
    with refused("`exit_heads=True` is not for"):
        distill.run(changed(settings, exit_heads=True))
    for name in ("hidden_weight", "relation_weight", "masked_words_weight"):
        with refused(f"{name}.*not go with"):
            changed(settings, **{name: 1.0})


@pytest.fixture(scope="module")
def two_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    rows = np.random.default_rng(0).normal(size=(len(TEXTS), 30))
    np.save(folder / "one.npy", rows[:, :10].astype(np.float16))
    np.save(folder / "two.npy", rows[:, 10:])
    return f"{folder}/one.npy,{folder}/two.npy"


@pytest.mark.slow
def test_a_stopped_student_of_files_goes_on_to_the_same_weights(
    options, two_files, tmp_path, monkeypatch
):
    """With all losses of pairs, and of masked words, whose head is kept."""
    given = {"order_weight": 1.0, "prefix_dimensions": "4,8"}
    given |= {"masked_words_weight": 0.1, "teacher_vectors": two_files}
    given |= {"do_eval": False, "train_step": 4}
    given |= dict.fromkeys(("save_checkpoints_steps", "iterations_per_loop"), 2)
    save, parts = run_checkpoints.RunCheckpoints.save, tmp_path / "parts"

    def save_and_copy(self):
        save(self)
        if not parts.exists():  # As a run that is killed here.
            shutil.copytree(tmp_path / "whole", parts)

    with monkeypatch.context() as patch:
        patch.setattr(run_checkpoints.RunCheckpoints, "save", save_and_copy)
        distill.run(options(tmp_path / "whole", **given))
    assert not (parts / "model.ckpt-4.index").exists()
    distill.run(options(parts, **given))
    one, other = (
        checkpoint_reader.read(str(place))
        for place in (tmp_path / "whole", parts)
    )
    for names in (one.shapes, one.state):
        np.testing.assert_equal(other.load(names), one.load(names))
    (bias,) = one.load(["cls/predictions/output_bias"]).values()
    assert bias.any()
    vectors = from_checkpoint.make_untrained_model(one.config, one)
    restoring.restore(vectors, one)
    assert vectors.projection_size == 30
    wanted = source_options.SourceOptions(
        run_dir=str(parts), task="pretraining"
    )
    served = source.make_service(source.find(wanted), None)
    assert "fill_mask" in served.signatures()
    restoring.restore(served.model, one)


@pytest.mark.parametrize(("weight", "size"), [(0.0, (2, 0)), (0.1, (2, 2))])
def test_memory_for_masked_words_is_counted(
    options, two_files, tmp_path, monkeypatch, weight, size
):
    """A sixth of 24 tokens are predicted, in one of two sequences."""

    def check(step, strategy, option, batch):
        assert option == "train_batch_size"
        raise errors.UserError(f"{step.sequences, step.num_predictions}")

    monkeypatch.setattr(memory_check, "check", check)
    given = {"teacher_vectors": two_files, "masked_words_weight": weight}
    settings = options(tmp_path / "run", do_eval=False, **given)
    with refused(re.escape(str(size))):
        distill.run(changed(settings, teacher=None))


def test_a_student_narrower_than_two_teachers(
    options, texts, two_files, tmp_path
):
    """Its run is bound to the text of the vectors.

    It has no linear layer, but is no pretrained model with a head for words.
    """
    given = {"teacher_vectors": two_files, "masked_words_weight": 0.1}
    given |= {"do_eval": False, "train_step": 1, "teacher_dimensions": 16}
    wanted = changed(options(tmp_path / "run", **given), teacher=None)
    distill.run(wanted)
    assert run_folder.read(str(tmp_path / "run")).facts["projection_size"] == 0
    assert all(0 < loss < 2 for loss in losses(tmp_path / "run"))
    student, small = str(tmp_path / "run"), str(tmp_path / "small")
    convert.run(ConvertOptions(from_=student, to=small, format="bfloat16"))
    words = "cls/predictions/output_bias"
    assert words in checkpoint_reader.read(student).shapes
    assert words not in checkpoint_reader.read(small).shapes
    (tmp_path / "changed.txt").write_text("\n".join(TEXTS[::-1]))
    (tmp_path / "fewer.txt").write_text("\n".join(TEXTS[1:]))
    for changes, message in (
        ({"train_file": str(tmp_path / "changed.txt")}, "trained on other"),
        ({"train_file": str(tmp_path / "fewer.txt")}, "25 rows, where 24"),
        ({"projection_size": 5}, "reduce them with `?teacher_dim"),
    ):
        with refused(message):
            distill.run(changed(wanted, **changes))
