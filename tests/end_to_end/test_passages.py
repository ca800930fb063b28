"""Passages from text to a pretrained encoder, with tasks about sentences."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import run_pretraining
from albert_tf.common import options
from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.config import AlbertConfig
from albert_tf.model.heads import from_checkpoint
from albert_tf.text import tokenization
from albert_tf.training import pretrain, run_log
from data_prep import create_pretraining_data
from data_prep.writer import corpus, segment_pairs
from tests.conftest import LOSS_RTOL, refused, tiny_config
from tests.data_prep import writing
from tests.end_to_end import test_pipeline

SIZES = {
    "num_hidden_layers": 2,
    "max_position_embeddings": 48,
    "type_vocab_size": 4,
}
NO_TASKS = {"sentence_objective": "none", "token_objective": "none"}
# What a system needs in the config, and of the options.
SYSTEMS = {
    "plm": ({"position_bias": "relative"}, NO_TASKS),
    "spans": ({"position_bias": "buckets", "vocab_size": 500}, NO_TASKS),
}
# What the layers of a whole run share.
SHARE = {"mlm": "attention", "plm": "none", "spans": "ffn"}


@pytest.fixture(scope="module")
def records(tmp_path_factory, tiny_vocab):
    folder = tmp_path_factory.mktemp("records")
    writing.write_corpus(folder / "a.txt", 1, 24)
    phrases = folder / "phrases.lst"
    phrases.write_text("at home\nby the fire\n")
    write_records(
        folder / "a.txt",
        folder / "passages",
        tiny_vocab,
        phrase_file=str(phrases),
    )
    return folder


def write_records(text, output, vocabulary, input_format="lines", **values):
    create_pretraining_data.run(
        create_pretraining_data.CreatePretrainingDataOptions(
            text=corpus.CorpusOptions(str(text), input_format),
            output_file=str(output),
            num_workers=1,
            records="passages",
            vocabulary=tokenization.VocabularyOptions(vocabulary),
            pairs=segment_pairs.PairOptions(max_seq_length=48),
            **values,
        )
    )
    return str(output)


@pytest.fixture(scope="module")
def make_in(records, tiny_vocab):
    def make(folder, share="all", objective="mlm", **changes):
        path = folder / f"{share}.json"
        own, others = SYSTEMS.get(objective, ({}, {}))
        config = tiny_config(**SIZES, share=share, **own)
        path.write_text(config.to_json())
        values = {
            "objective": objective,
            "albert_config_file": str(path),
            "input_file": str(records / "passages"),
            "output_dir": str(folder / "run"),
            "records": "passages",
            "sentence_objective": "reordering,distance,nsp",
            "token_objective": "capitalization,token_document",
            "masked_lm_budget": 5,
            "max_seq_length": 48,
            "spm_model_file": tiny_vocab,
            "optimizer": "adamw",
            "learning_rate": 1e-3,
            "train_batch_size": 8,
            "num_train_steps": 4,
            "num_warmup_steps": 0,
            "do_eval": True,
            **others,
            **changes,
        }
        return options.from_dict(run_pretraining.PretrainingOptions, values)

    return make


@pytest.fixture
def make(make_in, tmp_path):
    return functools.partial(make_in, tmp_path)


@pytest.fixture(scope="module")
def whole(make_in, tmp_path_factory):
    """Settings and last evaluation of a run of each objective."""

    @functools.cache
    def run(objective):
        folder = tmp_path_factory.mktemp(objective)
        share = SHARE[objective]
        settings = make_in(folder, share, objective, save_checkpoints_steps=1)
        return settings, evaluation(settings)

    return run


def evaluation(settings):
    # Every strategy of one process needs its own collective keys.
    tf.distribute.MirroredStrategy._collective_key_base += 100_000
    run_pretraining.run(settings)
    lines = run_log.read(settings.output_dir)
    (found,) = (x for x in lines if x["split"] == "eval" and x["step"] == 4)
    return {k: v for k, v in found.items() if k.endswith(("loss", "accuracy"))}


OF_SYSTEMS = {
    "plm": {"loss", "masked_lm_loss", "masked_lm_accuracy"},
    "spans": {"loss", "target_loss", "target_accuracy"},
}
LOSSES = {
    "loss",
    "masked_lm_loss",
    "sentence_reordering_loss",
    "sentence_distance_loss",
    "next_sentence_loss",
    "capitalization_loss",
    "token_document_loss",
}


@pytest.mark.slow
@pytest.mark.parametrize("objective", SHARE)
def test_numbers_do_not_depend_on_devices_and_microbatches(
    whole, make, objective
):
    names = OF_SYSTEMS.get(objective, LOSSES)
    _, one = whole(objective)
    assert one.keys() >= names and np.isfinite(list(one.values())).all()
    other = evaluation(
        make(
            SHARE[objective],
            objective,
            distribution_strategy="mirrored",
            gradient_accumulation_steps=2,
        )
    )
    for name in names:
        np.testing.assert_allclose(
            other[name], one[name], rtol=10 * LOSS_RTOL, err_msg=name
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "share"), [("rtd", "ffn"), *SHARE.items()]
)
def test_the_encoder_is_left_of_every_system(whole, make, objective, share):
    if SHARE.get(objective) == share:
        settings, found = whole(objective)
    else:
        settings = make(share, objective)
        found = evaluation(settings)
    assert found.keys() >= OF_SYSTEMS.get(objective, LOSSES)
    assert ("replaced_token_loss" in found) == (objective == "rtd")
    card = (tmp := settings.output_dir) + "/run_card.md"
    head = {
        "plm": "plm/predictions/output_bias",
        "spans": "decoder/predictions/output_bias",
    }.get(objective, "cls/tasks/sentence_distance/output_bias")
    with open(card) as stream:
        text = stream.read()
    assert all(name in text for name in OF_SYSTEMS.get(objective, LOSSES))
    checkpoint = checkpoint_reader.read(f"{tmp}/model.ckpt-4")
    assert head in checkpoint.shapes
    config = AlbertConfig.from_json_file(settings.albert_config_file)
    model = from_checkpoint.make_untrained_model(config, checkpoint)
    restoring.restore(model, checkpoint)
    left = from_checkpoint.only_for_training(checkpoint)
    names = {checkpoint_reader.name_of(v) for v in model.variables}
    assert names == checkpoint.shapes.keys() - left
    assert all("bert/" not in name or "generator" in name for name in left)


ERNIE = {
    "mask_levels": "basic:3,phrase",
    "ngram": 1,
    "sentence_objective": "reordering,distance",
    "task_stages": "1:3,1/2",
    "task_embeddings": True,
}


@pytest.mark.slow
@pytest.mark.parametrize("changes", [ERNIE, *SYSTEMS, "discourse"])
def test_a_killed_run_ends_like_an_undisturbed_one(
    whole, make, tmp_path, monkeypatch, request, changes
):
    if changes == "discourse":
        changes = request.getfixturevalue("markers")("it\nwe stay\nand\n")
    if changes in [*SYSTEMS]:
        undisturbed, _ = whole(changes)
        changes = {"share": SHARE[changes], "objective": changes}
    else:
        undisturbed = make(**changes, do_eval=False)
        run_pretraining.run(undisturbed)
    killed = make(
        **changes,
        do_eval=False,
        save_checkpoints_steps=1,
        output_dir=str(tmp_path / "k"),
    )
    write = run_log.RunLog.write

    def die(log, *line, **rest):
        write(log, *line, **rest)
        if line[:2] == ("train", 3):
            raise writing.Killed

    with monkeypatch.context() as patch, pytest.raises(writing.Killed):
        patch.setattr(run_log.RunLog, "write", die)
        run_pretraining.run(killed)
    run_pretraining.run(killed)
    one, other = (
        test_pipeline.weights(f"{settings.output_dir}/model.ckpt-4")
        for settings in (undisturbed, killed)
    )
    assert one == other


@pytest.fixture
def markers(tmp_path):
    return lambda text: writing.markers(tmp_path, text, "reordering,discourse")


def test_records_that_lack_what_is_drawn_are_refused(
    make, markers, tmp_path, tiny_vocab
):
    writing.write_corpus(tmp_path / "a.txt", 1, 1)
    one = write_records(tmp_path / "a.txt", tmp_path / "one", tiny_vocab)
    for changes, message in (
        ({"input_file": one}, "has distance, which needs text of several doc"),
        (
            {"eval_input_file": one, "do_eval": True},
            "has distance, .* of several documents in `eval_input_file`, but",
        ),
        (markers("however\nwhereas\n"), "matches nothing in the first 1,0"),
        ({"sentence_objective": "sop,dialogue"}, "has dialogue, but the reco"),
    ):
        settings = make(**changes)
        config = AlbertConfig.from_json_file(settings.albert_config_file)
        with refused(message):
            pretrain._prepare_data(settings, config)
