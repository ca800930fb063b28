"""Triplets from pairs: which texts are chosen, and what is refused."""

import types

import numpy as np
import pytest

from albert_tf.common import packed_vectors, prompts
from albert_tf.tasks.embedding import data, retrieval
from data_prep import mine_negatives
from tests import row_files
from tests.conftest import refused

# Degrees of the texts; each pair's second text is 10 away from its first.
PAIRS = [
    ("is it\twet?", "rain\n", 0),
    ("who?", "Mara", 30),
    ("when?", "now", 90),
]
KEYS = "text", "text_pair"
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
        mine_negatives.run(mine_negatives.MiningOptions(**options))
        return [e.texts for e in data.read(options["output_file"], "triplets")]

    return run


def test_triplets_are_what_run_embeddings_reads(mine):
    """`when?` is 50 degrees from `Mara`, `who?` 20 from `rain`."""
    assert mine(max_share=0.8) == [
        ("is it\twet?", "rain\n", "Mara"),
        ("who?", "Mara", "now"),
        ("when?", "now", "Mara"),
    ]
    with refused("new/triplets.jsonl` exists"):
        mine()


@pytest.mark.parametrize(
    ("names", "before"),
    [
        ({}, ("q: ", "q: ")),
        ({"passage_prompt": "p"}, ("q: ", "p: ")),
        ({"query_prompt": "", "passage_prompt": "p"}, ("", "p: ")),
    ],
)
def test_each_side_has_its_prompt(mine, tmp_path, monkeypatch, names, before):
    expected = mine()
    prompting = prompts.PromptOptions('{"q": "q: ", "p": "p: "}', "q")
    monkeypatch.setattr(
        mine_negatives,
        "teacher_signal",
        types.SimpleNamespace(
            describe_vectors=lambda _: types.SimpleNamespace(
                prompting=prompting
            )
        ),
    )
    texts = [
        p + t for *pair, _ in PAIRS for p, t in zip(before, pair, strict=True)
    ]
    asked = dict(zip(texts, unit(VECTORS), strict=True))
    monkeypatch.setattr(
        mine_negatives,
        "_vectors",
        lambda _, texts, __: np.stack([asked[text] for text in texts]),
    )
    given = {"teacher": "x", "teacher_vectors": None}
    given["output_file"] = str(tmp_path / "again.jsonl")
    assert mine(**given, **names) == expected
    given["output_file"] = str(tmp_path / "other.jsonl")
    with refused("'z' is no prompt"):
        mine(**given | names | {"query_prompt": "z"})


def test_pairs_without_negatives_are_counted(mine, caplog):
    found = mine(max_share=0.1, negatives=2)
    assert found == [("is it\twet?", "rain\n", "now")]
    assert (
        "3 pairs have fewer than `negatives=2` within the share; 2 of"
        in caplog.text
    )


REFUSALS = {
    "few texts": ({"negatives": 3}, "has 3 different .* need 4"),
    "none": ({"vectors": [0, 1, 0, 2, 0, 3]}, "none of 3 pairs has a negative"),
    "draws": (
        {"negatives": 3, "draw_from": 2},
        "`draw_from=2` is less than `negatives=3`",
    ),
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


RANDOM = np.random.default_rng(3)
# Questions with several answers, answers of several questions, and a text that
# is on both sides.
FIRSTS = [f"q{n % 25}" for n in range(40)]
SECONDS = [f"a{n * n % 31}" for n in range(40)]
DRAWN_PAIRS = [*zip(FIRSTS, SECONDS, strict=True), ("a4", "a1")]
CANDIDATES = [*dict.fromkeys(second for _, second in DRAWN_PAIRS)]
DRAWN = {
    text: packed_vectors.unit(RANDOM.normal(size=3) + [0.8, 0, 0])
    for text in [*FIRSTS, *CANDIDATES]
}


def test_a_text_as_close_as_the_answer_is_no_negative(mine):
    """`now` has the vector of `Mara`."""
    found = mine(vectors=[0, 10, 30, 40, 120, 40], max_share=1.0)
    assert ("who?", "Mara", "now") not in found and len(found) == 3


@pytest.mark.parametrize("pair", [("a", " "), ("\t", "b")])
def test_empty_texts_are_named(mine, tmp_path, pair):
    rows = [{"text": "c", "text_pair": "d"}, dict(zip(KEYS, pair, strict=True))]
    path = row_files.write(tmp_path / "blank.jsonl", rows)
    with refused("blank.jsonl.*a text of example 2 is empty"):
        mine(train_file=path)


def mined(**options):
    settings = mine_negatives.MiningOptions("in", "out", "model", **options)
    vectors = np.stack([*DRAWN.values()])
    return list(mine_negatives.mine(DRAWN_PAIRS, [*DRAWN], vectors, settings))


def allowed(pair, max_share, skip_ranks):
    """All texts that may be negatives, the nearest first."""
    first, second = DRAWN_PAIRS[pair]
    answers = {b for a, b in DRAWN_PAIRS if a == first}
    answers |= {a for a, b in DRAWN_PAIRS if b == first}
    cosines = {t: float(DRAWN[first] @ DRAWN[t]) for t in CANDIDATES}
    ranked = sorted(
        {*CANDIDATES} - answers - {first}, key=lambda t: -cosines[t]
    )
    return [
        text
        for text in ranked[skip_ranks:]
        if cosines[text] <= cosines[second] * max_share
        and cosines[text] < cosines[second]
    ]


@pytest.mark.parametrize("skip", [0, 2, 9])
@pytest.mark.parametrize("share", [0.5, 0.95, 1.0])
def test_the_nearest_within_the_share(monkeypatch, share, skip):
    monkeypatch.setattr(retrieval, "_BATCH", 7)
    expected = [allowed(n, share, skip)[:3] for n in range(len(DRAWN_PAIRS))]
    assert mined(negatives=3, max_share=share, skip_ranks=skip) == expected
    assert {0, 3} <= {*map(len, expected)}


def test_draws_depend_on_the_seed_and_the_pair_alone(monkeypatch):
    options = {"negatives": 2, "max_share": 1.0, "draw_from": 6}
    found = mined(**options)
    for number, texts in enumerate(found):
        near = allowed(number, 1.0, 0)[:6]
        assert texts == sorted({*texts}, key=near.index)
        assert len(texts) == min(2, len(near))
    assert found != [allowed(n, 1.0, 0)[:2] for n in range(len(found))]
    monkeypatch.setattr(retrieval, "_BATCH", 7)
    assert mined(**options) == found
    assert mined(**options, random_seed=1) != found
