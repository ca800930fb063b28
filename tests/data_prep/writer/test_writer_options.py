import logging

import pytest

from albert_tf.common import errors
from tests.data_prep import writing


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": "/nowhere/*.txt"}, "matches no file"),
        ({"input_file": " , "}, "`input_file` is empty"),
        ({"output_file": ","}, "--output_file is empty"),
        ({"output_file": "/tmp/x,/tmp/../tmp/x"}, "names /tmp/../tmp/x twice"),
        ({"output_file": "/tmp/x*"}, "looks like a pattern"),
        ({"output_file": "/tmp"}, "/tmp is a folder"),
        ({"output_file": "{folder}/a.txt"}, "a.txt is also an input"),
        (
            {"output_file": "{folder}/a.txt/x"},
            "`output_file`: Cannot create the folder",
        ),
        ({"output_file": "gs://a/b"}, "gs://a/b is not on this machine"),
        ({"output_file": "/proc/x"}, "/proc/x.work cannot be created"),
        ({"num_shards": 0}, "`num_shards=0` is below 1"),
        (
            {"num_shards": 2, "output_file": "/tmp/x,/tmp/y"},
            "names 2 files, and --num_shards=2",
        ),
        ({"num_workers": -1}, "`num_workers=-1` is below 0"),
        (
            {"masking_time": "training", "do_permutation": True},
            "--do_permutation needs --masking_time=writing",
        ),
        ({"spm_model_file": "/nowhere"}, "`spm_model_file=/nowhere` is not a"),
        ({"spm_model_file": None}, "`spm_model_file` and `vocab_file` are"),
        (
            {"spm_model_file": None, "vocab_file": "v.txt"},
            "`vocab_file=v.txt` is not a file",
        ),
        (
            {
                "spm_model_file": None,
                "vocab_file": "v.txt",
                "strip_spurious_marker": True,
            },
            "`strip_spurious_marker=true` is given with the WordPiece",
        ),
        (
            {"num_workers": 2, "dask_scheduler": "host:8786"},
            "`num_workers=2` and `dask_scheduler` are both given",
        ),
        ({"dask_scheduler": ""}, "`dask_scheduler=` is empty"),
        ({"dupe_factor": 0}, "`dupe_factor=0` is below 1"),
        ({"random_seed": -1}, "`random_seed=-1` is below 0"),
    ],
)
def test_wrong_options_are_named(base, tmp_path, changes, message):
    changes = {
        name: value.format(folder=tmp_path) if name == "output_file" else value
        for name, value in changes.items()
    }
    with pytest.raises(errors.UserError, match=message):
        writing.run(base, **changes)


def test_more_files_than_instances_are_rejected(base, tmp_path):
    (tmp_path / "c").write_text("it rains\nwe stay\n")
    output = ",".join(f"{base.output_file}{i}" for i in range(3))
    with pytest.raises(errors.UserError, match="3 files, but .* only 1 inst"):
        writing.run(
            base,
            input_file=str(tmp_path / "c"),
            output_file=output,
            dupe_factor=1,
        )


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
