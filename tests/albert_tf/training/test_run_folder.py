"""A folder belongs to one run only, and nothing in it is overwritten."""

import dataclasses
import json
import pathlib

import pytest
import tensorflow as tf

from albert_tf.common import files, folder_lock
from albert_tf.common.options import option
from albert_tf.text import normalization, tokenization
from albert_tf.text.normalization import Normalization
from albert_tf.training import run_folder
from tests.conftest import refused


@dataclasses.dataclass(frozen=True)
class Settings:
    rate: float = option(0.5, "A rate.")
    note: str = option("a", "A note.", may_change=True)


@pytest.fixture
def claim(small_config, tmp_path):
    def claim(settings=Settings(), spm=None, record_vocab_hashes=(), **changes):
        start = run_folder.RunStart(
            str(tmp_path / "run"),
            "run_x",
            settings,
            small_config,
            tokenization.VocabularyOptions(spm),
            {"the records": record_vocab_hashes},
        )
        dataclasses.replace(start, **changes).write_options()
        return run_folder.read(str(tmp_path / "run"))

    return claim


def content(folder):
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_claimed_folder_says_what_the_run_is(claim, small_config, tmp_path):
    run = claim()
    assert run == run_folder.Run(
        str(tmp_path / "run"), "run_x", {"rate": 0.5, "note": "a"}, small_config
    )
    (tmp_path / "run" / run_folder.OPTIONS_NAME).write_text(
        options_with("max_seq_length", small_config.max_position_embeddings)
    )
    assert run_folder.read(run.folder).options["max_seq_length"] == 64


def test_a_run_goes_on_with_the_data_of_its_last_start(tmp_path):
    folder = str(tmp_path)
    for data in ("a", "b"):
        line = {"split": "facts", "step": 0, "training_data": data}
        with (tmp_path / "metrics.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")
    run_folder.check_same_data(folder, "c")  # Nothing is trained.
    (tmp_path / "model.ckpt-best.index").touch()
    run_folder.check_same_data(folder, "b")
    for other in ("a", "c"):
        with refused("trained on other records"):
            run_folder.check_same_data(folder, other)


@pytest.mark.parametrize("name", ["facts", "labels", "tags"])
def test_a_run_goes_on_with_its_facts(claim, tmp_path, name):
    """Earlier versions wrote them as options."""
    facts = {"labels": ["a,b", "c"], "mean": 2.0, "size": None}
    claim(facts=facts)
    (tmp_path / "run/checkpoint").touch()
    if name != "facts":
        path = tmp_path / "run" / run_folder.OPTIONS_NAME
        written = json.loads(path.read_text())
        del written["facts"]
        options = {name: "a,b\tc", "mean": 2.0, "size": None}
        written["options"] |= options
        path.write_text(json.dumps(written))
    claim(facts=facts)
    for changed in ({"labels": ["c", "a,b"]}, {"mean": 3.0}):
        with refused(f"{[*changed][0]} was"):
            claim(facts={**facts, **changed})


def test_links_in_the_folder_lead_nowhere_when_it_is_written(
    claim, tiny_vocab, tmp_path
):
    (tmp_path / "own").write_text("the user's")
    (tmp_path / "run").mkdir()
    names = ["run_options.json", "albert_config.json"]
    names += ["spm.model", "spm.normalization.json"]
    for name in (*names, *(f"{name}.albert_tf.partial" for name in names)):
        (tmp_path / "run" / name).symlink_to("../own")
    claim(spm=tiny_vocab)
    assert (tmp_path / "own").read_text() == "the user's"
    assert sorted(content(tmp_path / "run")) == sorted(names)


def test_what_a_failed_start_left_is_not_the_vocabulary(
    claim, tiny_vocab, tmp_path
):
    @dataclasses.dataclass(frozen=True)
    class WithVocabulary:
        vocab_file: str = option("vocab.txt", "A vocabulary.")

    claim(spm=tiny_vocab)
    claim(WithVocabulary())
    (tmp_path / "run" / "vocab.txt").write_text("[PAD]\n")
    run = run_folder.read(str(tmp_path / "run"))
    assert run.vocabulary.spm_model_file is None
    assert run.vocabulary.vocab_file == str(tmp_path / "run" / "vocab.txt")


def test_same_options_continue_the_run_and_the_newest_are_kept(claim, tmp_path):
    claim(Settings(rate=0.25))
    claim()  # Nothing was trained yet: any options may follow.
    (tmp_path / "run" / "checkpoint").write_text("")
    assert claim(Settings(note="b")).options == {"rate": 0.5, "note": "b"}


@dataclasses.dataclass(frozen=True)
class WithMarkers(Settings):
    markers_file: str = option("markers.txt", "Markers.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": Settings(rate=0.25)}, "--rate was 0.5, is now 0.25"),
        ({"program": "run_y"}, "it was made by run_x, not run_y"),
        ({"facts": {"labels": ["b", "a"]}}, "labels was .'a', 'b'., is now ."),
        (
            {"config": {"num_hidden_layers": 5}},
            r"num_hidden_layers was 4, is now 5 \(in albert_config.json\)",
        ),
        ({"markers": "so\nbut\n"}, "`markers_file` had other markers"),
        ({"markers": "but \r\n\r\nso"}, None),  # The same ones.
        ({"facts": {"labels": ["a", "b"]}}, None),
        ({"facts": {"another": 1}}, None),  # An earlier version has not it.
    ],
)
def test_another_run_is_refused(
    claim, change, message, small_config, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "markers.txt").write_text("but\nso\n")
    change = {"settings": WithMarkers(), **change}
    claim(WithMarkers(), facts={"labels": ["a", "b"]})
    (tmp_path / "run" / "checkpoint").write_text("")
    if "config" in change:
        change["config"] = dataclasses.replace(small_config, **change["config"])
    (tmp_path / "markers.txt").write_text(change.pop("markers", "but\nso\n"))
    before = content(tmp_path / "run")
    if message is None:
        claim(**change)
        return
    words = f"(?s)belongs to another run:\n.*  {message}.*\nRepeat its options"
    with refused(words):
        claim(**change)
    assert content(tmp_path / "run") == before


@pytest.mark.parametrize("named", [False, True])
def test_another_vocabulary_is_refused(claim, tiny_vocab, tmp_path, named):
    """Also one that only the records know, then and now."""
    sha256 = files.sha256(tiny_vocab)
    same, ours = (
        {"record_vocab_hashes": [sha256]},
        tokenization.VocabularyOptions(),
    )
    if named:
        same = {"spm": tiny_vocab}
        ours = tokenization.VocabularyOptions(tiny_vocab)
    claim(record_vocab_hashes=["of a start that trained nothing"])
    assert claim(**same).vocab_sha256 == sha256
    tf.train.Checkpoint().write(f"{tmp_path}/run/model.ckpt-best")
    claim(**same)
    assert claim().vocab_sha256 == sha256  # It is not forgotten.
    other = tmp_path / "other.model"
    other.write_bytes(b"another vocabulary")
    before = content(tmp_path / "run")
    another = refused("another vocabulary")
    for changes in ({"spm": str(other)}, {"record_vocab_hashes": ["0ther"]}):
        with another:
            claim(**changes)
    assert content(tmp_path / "run") == before
    checkpoint = str(tmp_path / "run" / "model.ckpt-best")
    run_folder.check_start("new", checkpoint, ours, {"x": [sha256]})
    theirs = tokenization.VocabularyOptions(str(other))
    with another:
        run_folder.check_start("new", checkpoint, theirs)
    with another:
        run_folder.check_start("new", checkpoint, ours, {"x": ["0ther"]})
    with another:  # Records of two vocabularies, and no checkpoint.
        run_folder.check_start("new", None, theirs, {"x": ["a"], "y": ["b"]})
    (tmp_path / "run" / "spm.model").write_bytes(b"replaced")
    assert run_folder.folder_vocab_hashes(checkpoint) == {sha256}
    if named:
        run = run_folder.read(str(tmp_path / "run"))
        with another:
            print(run.vocabulary)


@pytest.mark.parametrize("name", ["checkpoint", "model.ckpt-best.index"])
def test_checkpoints_of_no_run_are_not_overwritten(claim, tmp_path, name):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text("")
    with refused("no run_options.json, so it ca"):
        claim()
    assert content(tmp_path) == {name: b""}
    with refused("`run_dir=.*` is not the fold"):
        run_folder.read(str(tmp_path))


def options_with(name, value):
    values = {"rate": 0.5, "note": "a", name: value}
    return json.dumps({"program": "run_x", "options": values})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ("[" * 100_000, "is damaged"),
        ("9" * 6000, "is damaged"),
        ('{"program": "x"}', "is damaged"),
        ('{"program": "x", "options": {}, "vocab_sha256": [7]}', "is damaged"),
        (options_with("task_name", 7), ": task_name is 7"),
        (options_with("max_seq_length", "32"), ": max_seq_length is '32'"),
        (options_with("max_seq_length", 0), ": max_seq_length is 0"),
        (
            options_with("max_seq_length", 65),
            ": max_seq_length is 65.* 1 to 64",
        ),
        (options_with("max_seq_length", 1.5), ": max_seq_length is 1.5"),
    ],
)
def test_damaged_options_are_an_error(claim, tmp_path, text, message):
    claim()
    (tmp_path / "run" / "checkpoint").write_text("")
    (tmp_path / "run" / run_folder.OPTIONS_NAME).write_text(text)
    with refused(f"run_options.json ?{message}"):
        claim()


def test_normalization_is_written_beside_the_copy_of_the_vocabulary(
    claim, undescribed_vocab
):
    kept = Normalization(do_lower_case=False, keep_accents=True)
    normalization.write(undescribed_vocab, kept)
    run = claim(spm=undescribed_vocab)
    copies = map(pathlib.Path, (run.vocabulary.path, undescribed_vocab))
    assert len({copy.read_bytes() for copy in copies}) == 1
    assert run.options["keep_accents"] is True
    assert run.options["do_lower_case"] is False
    assert normalization.read(run.vocabulary.path, "sentencepiece") == kept
    assert tokenization.load(run.vocabulary).normalization == kept


@dataclasses.dataclass(frozen=True)
class WithVocabulary:
    vocabulary: tokenization.VocabularyOptions


def test_what_is_said_of_normalization_must_be_as_before(
    claim, undescribed_vocab, tmp_path
):
    def claim_with(*values):
        vocabulary = tokenization.VocabularyOptions(*values)
        claim(WithVocabulary(vocabulary), vocabulary=vocabulary)

    claim_with(undescribed_vocab, None, False)
    (tmp_path / "run" / "model.ckpt-best.index").touch()
    claim_with()
    with refused("--do_lower_case was False, is now True"):
        claim_with(undescribed_vocab, None, True)


def test_a_run_of_an_earlier_version_goes_on(
    claim, undescribed_vocab, tmp_path
):
    claim(spm=undescribed_vocab)
    (tmp_path / "run" / "spm.normalization.json").unlink()
    (tmp_path / "run" / "model.ckpt-best.index").touch()
    assert claim(spm=undescribed_vocab).options["do_lower_case"] is True
    (tmp_path / "run" / run_folder.OPTIONS_NAME).write_text(
        options_with("do_lower_case", False)
    )
    run = run_folder.read(str(tmp_path / "run"))
    assert run.vocabulary.do_lower_case is False


def test_a_checkpoint_of_another_normalization_is_refused(
    claim, undescribed_vocab, tmp_path
):
    claim(spm=undescribed_vocab)
    checkpoint = str(tmp_path / "run" / "model.ckpt-best")
    tf.train.Checkpoint().write(checkpoint)
    same = tokenization.VocabularyOptions(undescribed_vocab)
    run_folder.check_start("new", checkpoint, same)
    other = dataclasses.replace(same, keep_accents=True)
    message = "`keep_accents=true` is not what the run of .*keep_accents=false"
    with refused(message):
        run_folder.check_start("new", checkpoint, other)


@pytest.mark.parametrize("name", ["run?", "*", "a[1]/run", "run]", "a\\b"])
def test_a_folder_named_as_a_pattern_is_refused(name):
    """TensorFlow would delete checkpoints of the other folders it matches."""
    vocabulary = tokenization.VocabularyOptions("x.model")
    with refused("reads as a pattern"):
        run_folder.check_start(f"runs/{name}", None, vocabulary)


def test_files_of_no_run_are_not_replaced(claim, tiny_vocab, tmp_path):
    """Unless it is the vocabulary that the run would copy."""
    folder = tmp_path / "run"
    folder.mkdir()
    names = "metrics.jsonl run_card.md learning_curves.png scores.json x.tsv"
    names += " confusion_dev.png eval_results.txt albert_config.json vocab.txt"
    names += " null_odds.json dev_outputs.npz nbest_predictions.json spm.model"
    for name in [*names.split(), "predictions.jsonl"]:
        (folder / name).touch()
        with refused(f"{name} exists"):
            claim(spm=tiny_vocab)
        (folder / name).unlink()
    (folder / "notes_results.md").touch()
    copied = tokenization.VocabularyOptions(tiny_vocab)
    assert run_folder.copy_vocabulary(copied, str(folder)) == "spm.model"
    written = {str(path) for path in folder.glob("spm.*")}
    assert written < {*run_folder.vocabulary_copy_paths(str(folder))}
    assert len(written) == 2
    claim(spm=tiny_vocab)
    nothing = tokenization.VocabularyOptions()
    assert run_folder.copy_vocabulary(nothing, str(folder)) is None


def test_the_vocabulary_beside_a_checkpoint(claim, tiny_vocab, tmp_path):
    given = tokenization.VocabularyOptions(do_lower_case=False)
    checkpoint = str(tmp_path / "model.ckpt-1")

    def find():
        found, folder = run_folder.vocabulary_beside(checkpoint, given)
        assert folder == str(tmp_path)
        return found

    assert find() == given and not run_folder.folder_vocab_hashes(checkpoint)
    copy = tmp_path / "spm.model"
    copy.write_bytes(pathlib.Path(tiny_vocab).read_bytes())
    assert find() == dataclasses.replace(given, spm_model_file=str(copy))
    assert not run_folder.folder_vocab_hashes(checkpoint)  # There is none yet.
    (tmp_path / "model.ckpt-1.index").touch()
    known = run_folder.folder_vocab_hashes(checkpoint)
    assert known == {files.sha256(tiny_vocab)}
    (tmp_path / "vocab.txt").touch()
    assert find() == given  # It is not known which one is right.
    assert run_folder.folder_vocab_hashes(None) == set()
    run = claim(spm=tiny_vocab)  # The folder of a run says which, and how.
    inner = f"{run.folder}/model.ckpt-2"
    expected = run.vocabulary, run.folder
    assert run_folder.vocabulary_beside(inner, given) == expected
    assert run_folder.find_first_run(run.folder) == run.folder
    assert run_folder.find_first_run(str(tmp_path)) is None
    (tmp_path / "run").rename(tmp_path / "run_1")
    assert run_folder.find_first_run(str(tmp_path)) == str(tmp_path / "run_1")


def test_advice_on_a_folder_that_cannot_be_held(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(
        folder_lock, "hold", lambda *given, advice: told.append(advice)
    )
    run_folder.hold(str(tmp_path), is_wanted=True)
    (tmp_path / "model.ckpt-best.index").touch()
    run_folder.hold(str(tmp_path), is_wanted=True)
    assert told[0] == "Choose a place that you may write to."
    assert told[1].endswith(f"weights, add `init_checkpoint={tmp_path}`.")
    with run_folder.hold(str(tmp_path), is_wanted=False):
        assert len(told) == 2
