"""Examples drawn from passages."""

import dataclasses

import numpy as np
import pytest

from albert_tf.data import drawing, layouts, marks, masking, passages, stages
from tests.conftest import digest

CLS, SEP, MASK = 2, 3, 4
LENGTH, PREDICTIONS = 16, 3
DOCUMENTS = [4, 5, 6, 0]
# Of three, three, two and no sentences of four pieces; the last row is filling.
SENTENCES = [3, 3, 2, 0]


def make_drawer(tasks=(), prob=0.15, segments=2):
    masker = masking.Masker(
        masking.MaskingOptions(
            max_predictions_per_seq=PREDICTIONS, masked_lm_prob=prob
        ),
        masking.Vocabulary(200, CLS, SEP, MASK, np.zeros(0, "u1")),
    )
    masks = drawing.Masks(masker, LENGTH)
    return passages.PassageDrawer(masks, tasks, segments)


def records():
    found = {
        "tokens": np.zeros((4, LENGTH - 2), np.int32),
        "marks": np.zeros((4, LENGTH - 2), np.int32),
        "document": np.array(DOCUMENTS, np.int32),
    }
    for row, sentences in enumerate(SENTENCES):
        places = np.arange(4 * sentences)
        found["tokens"][row, places] = 10 + 40 * row + places
        found["marks"][row, places[::2]] = marks.WORD
        found["marks"][row, places[::4]] |= marks.SENTENCE
    return found


def keys(seed=1):
    return np.arange(4, dtype=np.uint64) + np.uint64(100 * seed)


def restored(found):
    ids = found["input_ids"].copy()
    rows, columns = np.nonzero(found["masked_lm_weights"])
    places = found["masked_lm_positions"][rows, columns]
    ids[rows, places] = found["masked_lm_ids"][rows, columns]
    return ids


def segments_of(found, row):
    """The segments of an example, and the ids of their segments."""
    ids, real = restored(found)[row], found["input_mask"][row] > 0
    assert ids[0] == CLS and ids[real][-1] == SEP
    segments, numbers = [[]], []
    for id_, number in zip(
        ids[real][1:], found["segment_ids"][row][real][1:], strict=True
    ):
        if id_ == SEP:
            segments.append([])
            numbers.append(int(number))
        else:
            segments[-1].append(int(id_))
    return segments[:-1], numbers


def test_without_tasks_the_passage_is_one_segment():
    drawer, given = make_drawer(), records()
    found = drawer.draw(given, keys())
    shapes = {f.name: (4, *f.shape) for f in drawer.makes}
    assert {name: np.shape(value) for name, value in found.items()} == shapes
    for row in range(3):
        tokens = given["tokens"][row]
        assert segments_of(found, row) == ([tokens[tokens > 0].tolist()], [0])
    for name in shapes.keys() - {"next_sentence_labels"}:
        assert not found[name][3].any(), name  # Filling.
    assert (found["next_sentence_labels"] == layouts.NO_LABEL).all()
    starts = found["token_boundary"][0]
    assert starts.tolist() == [1] + [1, 0] * 6 + [1, 0, 0]


def test_masks_are_those_of_the_masker():
    drawer = make_drawer(prob=0.5)
    found = drawer.draw(records(), keys())
    expected = drawer.masks.masker.mask(
        restored(found),
        found["input_mask"].sum(1),
        keys(),
        found["token_boundary"].astype("u1"),
    )
    assert (found["input_ids"] == expected.input_ids).all()
    assert found["masked_lm_weights"].sum(1).tolist() == [2, 2, 2, 0]
    # Nothing is asked about what is hidden.
    marked = np.concatenate([[0], records()["marks"][0], [0]])
    hidden = found["masked_lm_positions"][0, :2]
    expected = np.where(np.isin(np.arange(LENGTH), hidden), 0, marked)
    assert found["marks"][0].tolist() == expected.tolist()


def test_the_rest_of_a_unit_is_a_unit_behind_a_special_piece():
    drawer = dataclasses.replace(
        make_drawer(("sop",), prob=1.0), mask_stages=stages.parse("phrase")
    )
    given = records()
    given["tokens"][:, 4:] = 0
    given["marks"][:] = marks.WORD | marks.PHRASE
    given["marks"][:, ::2] |= marks.SENTENCE
    found = drawer.draw(given, keys())
    assert found["masked_lm_weights"].sum(1).tolist() == [2, 2, 2, 0]
    for places in found["masked_lm_positions"][:3, :2].tolist():
        assert places in ([1, 2], [4, 5])


@pytest.mark.parametrize(
    ("tasks", "segments", "changes", "draws"),
    [
        (("reordering",), 1, {}, "d08c2fdbf69e"),
        (("reordering",), 2, {}, "d6e061334341"),
        (("reordering", "nsp"), 4, {}, "667e3ef4de44"),
        (("sop", "distance"), 2, {}, "15b0fc2c9332"),
        (
            ("sop", "distance", "nsp"),
            2,
            {"task_stages": stages.parse("1:10,1/3:10,1/1/1")},
            "b39b64e840c9",
        ),
    ],
)
def test_draws_follow_from_their_keys(tasks, segments, changes, draws):
    """Also of passages that leave no room for separators."""
    drawer = make_drawer(tasks, segments=segments)
    drawer = dataclasses.replace(drawer, **changes)
    full = records()
    full["tokens"][:] = np.arange(10, 10 + LENGTH - 2)
    full["marks"][:] = marks.SENTENCE
    found = [
        drawer.draw(given, keys(seed), step)
        for given in (records(), full)
        for seed in range(15)
        for step in (0, 10, 20, None)
    ]
    rows = [[drawn[name].tolist() for name in sorted(drawn)] for drawn in found]
    assert digest(*rows) == draws


@pytest.mark.parametrize(
    ("speakers", "ids"),
    [("QR", [0, 1]), ("QQQ", [0]), ("RRQ", [1, 0]), ("RQR", [1, 0, 1])],
)
def test_segments_of_dialogues_say_who_speaks(speakers, ids):
    """Also without the three turns of the task, which have QRQ."""
    given = records()
    given["tokens"][0, 4 * len(speakers) :] = 0
    for row, said in enumerate((speakers, "QRQ", "QR")):
        for turn, speaker in enumerate(said):
            place = slice(4 * turn, 4 * turn + 4)
            given["marks"][row, place] |= marks.RESPONSE * (speaker == "R")
    found = make_drawer(("dialogue",)).draw(given, keys())
    assert segments_of(found, 0)[1] == ids
    assert segments_of(found, 1)[1] == [0, 1, 0]
    assert found["next_sentence_labels"][0, 0] == layouts.NO_LABEL
    is_labelled = found["next_sentence_labels"][1, 0] != layouts.NO_LABEL
    assert is_labelled == (len(speakers) == 3)  # Two turns are no partner.


def test_each_task_may_have_segment_ids_of_its_own():
    shared = make_drawer(("sop", "distance"))
    drawer = dataclasses.replace(shared, task_embeddings=True)
    for seed in range(20):
        plain, found = (d.draw(records(), keys(seed)) for d in (shared, drawer))
        own = found.pop("segment_ids") - plain.pop("segment_ids")
        real = plain["input_mask"]
        assert (own == 2 * plain["sentence_task"] * real).all()
        for name, value in plain.items():
            np.testing.assert_array_equal(value, found[name])


@pytest.mark.parametrize(
    ("documents", "real", "partners"),
    [
        ([7, 7, 8], [1, 1, 1], [2, 2, 0]),
        ([7, 7, 7], [1, 1, 1], [-1, -1, -1]),
        ([7, 8, 7, 0], [1, 1, 1, 0], [1, 2, 1, -1]),
        ([7, 0, 9, 9, 7], [1, 0, 1, 1, 1], [2, -1, 4, 4, 2]),
        ([7], [1], [-1]),
        ([], [], []),
    ],
)
def test_partners_are_of_another_document(documents, real, partners):
    found = passages.find_partners(np.array(documents), np.array(real, bool))
    assert found.tolist() == partners
