import dataclasses
import logging

import pytest

from data_prep.writer import writer_options
from tests.conftest import changed, refused
from tests.data_prep import writing


@pytest.mark.parametrize(
    ("output_file", "message"),
    [
        ("{folder}/a.txt/x", "`output_file`: Cannot create the folder"),
        ("/proc/x", "`output_file`: Cannot create the folder '/proc/x.work'"),
    ],
)
def test_outputs_where_nothing_can_be_written(
    base, tmp_path, output_file, message
):
    with refused(message):
        writing.run(base, output_file=output_file.format(folder=tmp_path))


def test_masks_of_training_are_not_chosen_here(base, caplog):
    caplog.set_level(logging.WARNING)
    writing.run(base, masking_time="training", masked_lm_prob=0.3)
    assert "--masked_lm_prob=0.3: not used" in caplog.text


@pytest.mark.parametrize(
    "given, is_warned", [(4, True), (5, False), (20, False), (21, True)]
)
def test_few_predictions_and_empty_places_are_warned_of(
    base, caplog, given, is_warned
):
    """5 of 32 tokens are predicted; 20 is the original's default."""
    caplog.set_level(logging.WARNING)
    writing.run(base, max_predictions_per_seq=given)
    assert ("Use --max_predictions_per_seq=5" in caplog.text) == is_warned


def test_passes_and_seed_of_the_original():
    fields = dataclasses.fields(writer_options.CreatePretrainingDataOptions)
    usual = {field.name: field.default for field in fields}
    assert (usual["dupe_factor"], usual["random_seed"]) == (40, 12345)


PASSAGES = {"records": "passages", "dupe_factor": 40}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_format": "dialogues"}, "=dialogues` is only used with `recor"),
        ({"phrase_file": "x"}, "`phrase_file=x` is only used with `records=pa"),
        ({"cross_documents": True}, "`cross_documents=True` is only used with"),
        (
            {"records": "passages"},
            "`dupe_factor=3` is only used with `records=in",
        ),
        (PASSAGES, "`max_predictions_per_seq=5` is only used with `re"),
        ({**PASSAGES, "masking_time": "training"}, "`masking_time=training`"),
        ({**PASSAGES, "sentence_objective": "nsp"}, "`sentence_objective=nsp`"),
        (
            {"masking_time": "training", "do_permutation": True},
            "only used with",
        ),
        ({"dask_scheduler": ""}, "`dask_scheduler=` is empty"),
        ({"dask_scheduler": "a:1", "num_workers": 2}, "`num_workers=2` and"),
        (
            {"word_start_rule": "marker", "word_segmenter": "jieba"},
            "`word_start_rule=marker` is only used with `word_segmenter=none`",
        ),
    ],
)
def test_options_that_contradict_are_refused(base, changes, message):
    with refused(message):
        changed(base, **changes)
