"""Tags of words: what runs learn, and all that is made of a run."""

import json

import pytest

from albert_tf import convert_checkpoint, run_tagger
from albert_tf.common import errors, scores
from albert_tf.finetuning import fact_sources
from albert_tf.tasks.tagging import task as tagging
from tests import export_options, row_files
from tests.albert_tf.finetuning import small_runs, tagged
from tests.conftest import changed


def options(world, folder, kind="columns", **values):
    path = tagged.write(folder.parent / f"{kind}.txt", kind=kind)
    settings = run_tagger.RunTaggerOptions(
        finetuning=small_runs.shared(
            world, folder, max_seq_length=24, pad_to_max=True
        ),
        train_file=path,
        dev_file=path,
        test_file=path,
    )
    return changed(
        settings,
        **{
            "train_step": 60,
            "learning_rate": 3e-3,
            "save_checkpoints_steps": 60,
            "iterations_per_loop": 60,
            **values,
        },
    )


@pytest.fixture(scope="module")
def trained(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tags") / "run"
    run_tagger.run(options(world, folder))
    return folder


def test_entities_are_learnt(trained):
    found = scores.read(str(trained)).best.scores
    assert found["f1"] > 0.9, found
    first = row_files.read(trained / "test_predictions.jsonl")[0]
    assert {"line", "text", "spans"} == first.keys()
    assert first["spans"][0]["text"] == "Mara"
    rows = small_runs.open_lines(trained / "test_predictions.tsv")
    assert rows[0].split("\t")[:2] == ["Mara", "B-PER"]


def test_a_head_with_the_tags_in_another_order_is_refused(
    world, tmp_path, monkeypatch
):
    facts = {"labels": ("B", "A")}
    monkeypatch.setattr(
        fact_sources.RunSource, "head_facts", lambda self: facts
    )
    settings = options(world, tmp_path / "run", init_checkpoint="hub")
    with pytest.raises(errors.UserError, match="tags B, A, .* order A, B"):
        run_tagger.run(changed(settings, tags="A\tB"))


def test_a_run_is_evaluated_without_its_training_file(world, trained):
    settings = options(world, trained, do_train=False)
    before = scores.read(str(trained))
    settings = changed(settings, train_file=None)
    run_tagger.run(settings)
    assert scores.read(str(trained)).best.scores == before.best.scores


@pytest.mark.slow
@pytest.mark.parametrize("pad_to_max", [True, False])
def test_a_student_learns_its_teacher_s_tags(
    world, trained, tmp_path, pad_to_max
):
    """From the teacher alone; one that cuts texts otherwise is refused."""
    settings = options(
        world,
        tmp_path / "student",
        teacher=str(trained),
        pad_to_max=pad_to_max,
    )
    run_tagger.run(changed(settings, teacher_weight=1.0))
    assert scores.read(str(tmp_path / "student")).best.scores["f1"] > 0.9
    other = changed(settings, max_seq_length=16, output_dir=str(tmp_path / "x"))
    with pytest.raises(errors.UserError, match="single tokens"):
        run_tagger.run(other)


def test_own_texts_get_spans(trained, tmp_path):
    path, out = tmp_path / "texts.txt", tmp_path / "out.jsonl"
    path.write_text("Mara went to Nord Mill.\n" + '{"text": "", "id": "x"}\n')
    first, second = export_options.ask(path, out, run_dir=trained)
    assert second == {"id": "x", "text": "", "spans": []}
    assert (first["line"], first["text"]) == (1, "Mara went to Nord Mill.")
    spans = [(s["start"], s["end"], s["label"]) for s in first["spans"]]
    assert spans == [(0, 4, "PER"), (13, 22, "LOC")]


def spans(texts, out, **model):
    """The spans of each line, without bytes."""
    keys = "start", "end", "label", "text"
    return [
        [[span[key] for key in keys] for span in answer["spans"]]
        for answer in export_options.ask(texts, out, **model)
    ]


@pytest.mark.slow
def test_a_folder_for_transformers_is_the_same_model(world, trained, tmp_path):
    folder = tmp_path / "hub"
    convert_checkpoint.run(
        convert_checkpoint.ConvertOptions(
            from_=str(trained), to=str(folder), format="huggingface"
        )
    )
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["AlbertForTokenClassification"]
    tags = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert list(config["id2label"].values()) == tags
    settings = options(
        world, tmp_path / "run", do_train=False, init_checkpoint=str(folder)
    )
    run_tagger.run(changed(settings, train_file=None))
    best = scores.read(str(trained)).best.scores
    assert scores.read(str(tmp_path / "run")).best.scores == best
    served = tmp_path / "served"
    export_options.exported(served, init_checkpoint=folder, task="tagging")
    texts = tmp_path / "texts.txt"
    texts.write_text(
        'Mara went to Nord Mill.\n{"words": ["Mara", "\'s", "Nord", "Farm"]}\n'
    )
    found = spans(texts, tmp_path / "out", saved_model=served)
    assert found == spans(texts, tmp_path / "out2", run_dir=trained)


def test_tags_must_be_known(world, tmp_path):
    settings = options(world, tmp_path / "run", do_train=False)
    settings = changed(settings, train_file=None)
    with pytest.raises(errors.UserError, match="The tags are not known"):
        run_tagger.run(settings)


def test_a_head_of_other_tags_is_not_continued(world, trained, tmp_path):
    path = tmp_path / "pos.txt"
    path.write_text("Ivo\tNOUN\nsaw\tVERB\n")
    settings = options(world, tmp_path / "run", init_checkpoint=str(trained))
    settings = changed(settings, train_file=str(path))
    with pytest.raises(errors.UserError, match="of other tags .*`new_head`"):
        run_tagger.run(settings)


def test_tags_are_separated_by_tabs():
    assert tagging.TaggingOptions("O\t,\tB-a b").labels == ("O", ",", "B-a b")
