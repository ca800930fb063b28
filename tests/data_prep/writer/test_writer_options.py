import logging

import pytest

from albert_tf.common import errors
from tests.data_prep import writing


@pytest.mark.parametrize(
    ("output_file", "message"),
    [
        ("{folder}/a.txt/x", "`output_file`: Cannot create the folder"),
        ("/proc/x", "/proc/x.work cannot be created"),
    ],
)
def test_outputs_where_nothing_can_be_written(
    base, tmp_path, output_file, message
):
    with pytest.raises(errors.UserError, match=message):
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
