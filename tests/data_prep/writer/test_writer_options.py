import dataclasses
import logging

import pytest

from data_prep.writer import writer_options
from tests.conftest import refused
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
