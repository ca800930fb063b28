"""Triplets from pairs; which texts are chosen: tasks/embedding."""

import numpy as np
import pytest

from albert_tf.tasks.embedding import data
from data_prep import mine_negatives
from tests import row_files
from tests.conftest import refused

# Degrees of the texts; each pair's second text is 10 away from its first.
PAIRS = [
    ("is it\twet?", "rain\n", 0),
    ("who?", "Mara", 30),
    ("when?", "now", 90),
]
VECTORS = [d for _, _, degrees in PAIRS for d in (degrees, degrees + 10)]


def unit(degrees):
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


@pytest.fixture
def mine(tmp_path):
    rows = [{"text": a, "text_pair": b} for a, b, _ in PAIRS]
    pairs = row_files.write(tmp_path / "pairs.jsonl", rows)

    def run(vectors=VECTORS, **options):
        np.save(tmp_path / "v.npy", unit(vectors))
        values = {
            "train_file": pairs,
            "output_file": str(tmp_path / "new" / "triplets.jsonl"),
            "teacher_vectors": str(tmp_path / "v.npy"),
        }
        options = {**values, **options}
        chosen = options.pop("chosen", {})
        mine_negatives.run(
            mine_negatives.MiningOptions(
                **options,
                chosen=mine_negatives.negatives.NegativeOptions(**chosen),
            )
        )
        return [e.texts for e in data.read(options["output_file"], "triplets")]

    return run


def test_triplets_are_what_run_embeddings_reads(mine):
    """`when?` is 50 degrees from `Mara`, `who?` 20 from `rain`."""
    assert mine(chosen={"max_share": 0.8}) == [
        ("is it\twet?", "rain\n", "Mara"),
        ("who?", "Mara", "now"),
        ("when?", "now", "Mara"),
    ]
    with refused("new/triplets.jsonl` exists"):
        mine()


def test_pairs_without_negatives_are_counted(mine, caplog):
    found = mine(chosen={"max_share": 0.1, "negatives": 2})
    assert found == [("is it\twet?", "rain\n", "now")]
    assert (
        "3 pairs have fewer than `negatives=2` within the share; 2 of"
        in caplog.text
    )


REFUSALS = {
    "few texts": ({"chosen": {"negatives": 3}}, "has 3 different .* need 4"),
    "none": ({"vectors": [0, 1, 0, 2, 0, 3]}, "none of 3 pairs has a negative"),
    "rows": ({"vectors": VECTORS[1:]}, "has 5 rows, where 6 are needed"),
    "not finite": ({"vectors": [*VECTORS[1:], np.nan]}, "row 6 is not finite"),
    "both": ({"teacher": "x"}, "exactly one of the two"),
    "neither": ({"teacher_vectors": None}, "exactly one of the two"),
    "table": ({"output_file": "x.TSV"}, "would be read as a table"),
}


@pytest.mark.parametrize(
    ("options", "message"), REFUSALS.values(), ids=REFUSALS
)
def test_what_is_refused(mine, tmp_path, options, message):
    with refused(message):
        mine(**options)
    assert not list(tmp_path.glob("new/*"))
