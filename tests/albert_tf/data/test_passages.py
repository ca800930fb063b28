"""Examples drawn from passages."""

import dataclasses

import numpy as np
import pytest

from albert_tf.data import drawing, layouts, marks, masking, passages, stages

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


@pytest.mark.parametrize("segments", [1, 2, 4])
def test_segments_have_a_separator_and_a_number_each(segments):
    drawer = make_drawer(("reordering",), segments=segments)
    seen = set()
    for seed in range(40):
        found = drawer.draw(records(), keys(seed))
        for row in range(3):
            parts, numbers = segments_of(found, row)
            most = [min(n, segments - 1) for n in range(len(parts))]
            assert numbers == most
            tokens = records()["tokens"][row]
            kept = min(4 * SENTENCES[row], LENGTH - 4)
            assert sorted(sum(parts, [])) == tokens[:kept].tolist()
            seen.add((row, len(parts), found["next_sentence_labels"][row, 0]))
    assert {label for row, _, label in seen if row == 0} == set(range(9))
    assert {count for row, count, _ in seen if row == 2} == {1, 2}


def test_the_longest_passage_leaves_room_for_all_separators():
    given = records()
    given["tokens"][:] = np.arange(10, 10 + LENGTH - 2)
    given["marks"][:] = marks.SENTENCE
    for task, separators in (("reordering", 3), ("sop", 2), ("nsp", 2)):
        found = make_drawer((task,), prob=0.0).draw(given, keys())
        last = 10 + LENGTH - 1 - separators  # The first that has no room.
        for row in range(4):
            parts, _ = segments_of(found, row)
            assert sorted(sum(parts, [])) == list(range(10, last))


def test_segments_of_dialogues_say_who_speaks():
    drawer, given = make_drawer(("dialogue",)), records()
    for row in range(3):
        given["marks"][row, 4:8] |= marks.RESPONSE
    seen = set()
    for seed in range(40):
        found = drawer.draw(given, keys(seed))
        assert segments_of(found, 0)[1] == segments_of(found, 1)[1] == [0, 1, 0]
        assert found["next_sentence_labels"][2, 0] == layouts.NO_LABEL
        seen |= set(found["next_sentence_labels"][:2, 0].tolist())
    assert seen == {0, 1}


@pytest.mark.parametrize(
    ("speakers", "ids"),
    [
        ("QR", [0, 1]),
        ("QQQ", [0]),
        ("RRQ", [1, 0]),
        ("RQR", [1, 0, 1]),
        ("RQQ", [1, 0]),
    ],
)
def test_dialogues_without_three_turns_say_who_speaks_too(speakers, ids):
    given = records()
    given["tokens"][0, 4 * len(speakers) :] = 0
    for turn, speaker in enumerate(speakers):
        own = slice(4 * turn, 4 * turn + 4)
        given["marks"][0, own] |= marks.RESPONSE * (speaker == "R")
    found = make_drawer(("dialogue",)).draw(given, keys())
    parts, numbers = segments_of(found, 0)
    tokens = given["tokens"][0]
    assert sum(parts, []) == tokens[tokens > 0].tolist()
    assert numbers == ids
    assert found["next_sentence_labels"][0, 0] == layouts.NO_LABEL


def test_each_example_has_one_of_the_tasks():
    drawer = make_drawer(("sop", "distance"))
    found = [drawer.draw(records(), keys(seed)) for seed in range(50)]
    seen = {
        (
            int(f["sentence_task"][row, 0]),
            int(f["next_sentence_labels"][row, 0]),
        )
        for f in found
        for row in range(2)
    }
    assert seen == {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)}


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


def test_tasks_are_added_one_after_the_other():
    drawer = dataclasses.replace(
        make_drawer(("sop", "distance", "nsp")),
        task_stages=stages.parse("1:10,1/3:10,1/1/1"),
    )
    for step, known in (
        (0, {0}),
        (9, {0}),
        (10, {0, 1}),
        (20, {0, 1, 2}),
        (None, {0, 1, 2}),
    ):
        seen = [
            drawer.draw(records(), keys(seed), step)["sentence_task"][:3]
            for seed in range(30)
        ]
        assert set(np.ravel(seen).tolist()) == known
        if step == 10:
            assert np.mean(seen) == pytest.approx(3 / 4, abs=0.1)


def test_the_other_segment_is_of_the_next_passage_of_the_batch():
    seen = set()
    for seed in range(30):
        found = make_drawer(("nsp",)).draw(records(), keys(seed))
        for row in range(3):
            (_, second), _ = segments_of(found, row)
            label = int(found["next_sentence_labels"][row, 0])
            seen.add((row, label, (second[0] - 10) // 40))
    assert seen == {(n, 0, n) for n in range(3)} | {
        *((0, 1, 1), (1, 1, 2), (2, 1, 0))
    }


def test_what_is_drawn_follows_from_the_keys():
    drawer = make_drawer(("reordering", "nsp"))
    one, two, other = (drawer.draw(records(), keys(n)) for n in (1, 1, 2))
    np.testing.assert_equal(one, two)
    assert (one["input_ids"] != other["input_ids"]).any()


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
