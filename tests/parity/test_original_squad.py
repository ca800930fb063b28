"""SQuAD features and alignment against recordings of the original."""

import json
import lzma

import numpy as np
import pytest

from albert_tf.finetuning import overlaps
from albert_tf.tasks.squad import data as squad_data
from albert_tf.tasks.squad import features as squad_features
from albert_tf.text import cleaning, tokenization
from tests.parity.conftest import TEXT_SETS

# The text set, the recording, and its number of windows.
CASES = [
    ("own_text", "dev-v1.1_384_128_64", 117),
    ("own_text", "dev-v1.1_96_32_16", 587),
    ("own_text", "dev-v2.0_384_128_64", 108),
    ("own_text", "dev-v2.0_96_32_16", 576),
    ("own_text", "train-v1.1_training_384_128_64", 108),
    ("own_text", "train-v1.1_training_96_32_16", 589),
    ("own_text", "train-v2.0_training_384_128_64", 109),
    ("own_text", "train-v2.0_training_96_32_16", 575),
    ("real_text", "dev2_160_64_24", 397),
    ("real_text", "dev2_384_128_64", 216),
    ("real_text", "train2_training_384_128_64", 238),
]
# Windows whose answer begins or ends with white space, and its first and last
# piece. The original learns a piece too many: "dreapetol cos" with what stands
# before it, "Quoakepen" with the next word; see docs/differences.md.
WITHOUT_WHITE_SPACE = {
    "train-v1.1_training_384_128_64": {
        4: (88, 96),
        29: (264, 269),
        30: (136, 141),
    },
    "train-v1.1_training_96_32_16": {
        18: (56, 64),
        19: (24, 32),
        175: (72, 77),
        176: (40, 45),
    },
}
on_all_cases = pytest.mark.parametrize(
    ("text_set", "name", "count"), CASES, indirect=["text_set"]
)


def read_recorded(text_set, name):
    """The recorded windows; those with white space in their answer, without."""
    rows = text_set.read_rows(f"original_squad/{name}.jsonl.gz")
    for row, (start, end) in WITHOUT_WHITE_SPACE.get(name, {}).items():
        recorded = rows[row]["start_position"], rows[row]["end_position"]
        assert recorded in ((start - 1, end), (start, end + 1))
        rows[row] |= {"start_position": start, "end_position": end}
    return rows


def find_source(text_set, name):
    file = f"{name.split('_')[0]}.json"
    mine = text_set.data / "squad" / file
    return str(
        mine if mine.exists() else text_set.recordings / "original_squad" / file
    )


def find_windows(text_set, name):
    """The questions of a recording, their windows, tokens of a sequence."""
    questions = squad_data.read(find_source(text_set, name), "file")
    length, stride, query = map(int, name.split("_")[-3:])
    windows = squad_features.make_windows(
        questions,
        text_set.tokenizer(),
        squad_features.PassageWindows(stride, query),
        length,
    )
    return questions, windows, length


@on_all_cases
def test_features_equal_the_recorded_ones(text_set, name, count):
    recorded = read_recorded(text_set, name)
    assert len(recorded) == count
    questions, windows, length = find_windows(text_set, name)
    tokenizer = text_set.tokenizer()
    positions = squad_features.find_answers(windows, questions)
    is_training = "training" in name
    values = {}
    for block in squad_features.make_features(
        windows, tokenizer, length, positions if is_training else None
    ):
        for key, array in block.items():
            values.setdefault(key, []).append(array)
    values = {key: np.concatenate(arrays) for key, arrays in values.items()}
    layout = squad_features.squad_layout(length, is_training=is_training)
    assert {feature.name for feature in layout} == values.keys()
    assert len(windows) == count
    for row, expected in enumerate(recorded):
        found = describe(row, values, windows, questions, is_training)
        assert found == {key: expected[key] for key in found}


def describe(row, values, windows, questions, is_training):
    length = int(values["input_mask"][row].sum())
    for key in ("input_ids", "segment_ids"):
        assert not values[key][row, length:].any()
    assert values["p_mask"][row, length:].all()
    question = int(windows.question[row])
    pieces = windows.paragraphs[question]
    begin, first = int(windows.begin[row]), int(windows.first[row])
    part = slice(begin, begin + int(windows.length[row]))
    span = windows.spans[question]
    spans = zip(
        windows.begin[span].tolist(), windows.length[span].tolist(), strict=True
    )
    best = overlaps.max_context(tuple(spans))[row - span.start]
    found = {
        "unique_id": int(values["unique_ids"][row]),
        "doc_span_index": row - span.start,
        "paragraph_len": length,
        **{
            key: values[key][row, :length].tolist()
            for key in ("input_ids", "segment_ids", "p_mask")
        },
        "tok_start_to_orig_index": pieces.starts[part].tolist(),
        "tok_end_to_orig_index": last_characters(pieces.ends[part]),
        "token_is_max_context": (np.flatnonzero(best) + first).tolist(),
    }
    if is_training:
        return {
            **found,
            "start_position": values["start_positions"][row],
            "end_position": values["end_positions"][row],
            "is_impossible": values["is_impossible"][row],
        }
    return {**found, "qas_id": questions[question].id}


def last_characters(ends):
    """The original keeps the last character, never one before the text."""
    return (np.maximum(ends, 1) - 1).tolist()


@pytest.mark.parametrize(
    "name", ["dev-v1.1", "train-v1.1", "dev-v2.0", "train-v2.0"]
)
@pytest.mark.parametrize("text_set", TEXT_SETS, indirect=True)
def test_alignment_is_the_longest_common_subsequence(text_set, name):
    """The same characters as the original's table, on whole paragraphs.

    All 2,967 of the real files agree; every twentieth is tried here.
    """
    path = text_set.data / "squad" / f"{name}.json"
    if path.exists():
        packed, every = path.read_bytes(), 3
    else:
        path = path.with_name(f"{name}.json.xz")
        packed, every = lzma.decompress(path.read_bytes()), 20
    data = json.loads(packed)["data"]
    texts = [p["context"] for article in data for p in article["paragraphs"]]
    tokenizer = text_set.tokenizer()
    for text in texts[::every]:
        _, starts, ends = tokenizer.encode_with_offsets(text)
        expected = align_pieces(tokenizer, text)
        assert (starts.tolist(), last_characters(ends)) == expected


def test_korean_is_aligned_where_the_original_fails(own_text):
    tokenizer = own_text.tokenizer()
    text = "서울은 대한민국의 수도이다."
    assert align_pieces(tokenizer, text) is None
    question = squad_data.Question(
        "k", "수도?", text, (squad_data.Answer("대한민국", 4),)
    )
    windows = squad_features.make_windows(
        [question], tokenizer, squad_features.PassageWindows(), 384
    )
    positions = squad_features.find_answers(windows, [question])
    (pieces,) = windows.paragraphs
    first = int(positions["start_positions"][0] - windows.first[0])
    last = int(positions["end_positions"][0] - windows.first[0])
    assert "대한민국" in text[pieces.starts[first] : pieces.ends[last]]
    assert not positions["is_impossible"].any()


# The original's alignment, as original-release.md 5.8 describes it.


def align_pieces(tokenizer, text):
    """First and last character of each piece; None for a mismatch."""
    pieces = tokenizer.encode_pieces(text)
    joined = "".join(pieces).replace(tokenization.WORD_START, " ")
    known = align_characters(text, joined)
    if known is None:
        return None
    starts, ends, place = [], [], 0
    for piece in pieces:
        starts.append(fill_gap(known, place, len(text), is_start=True))
        place += len(piece)
        ends.append(fill_gap(known, place - 1, len(text), is_start=False))
    return starts, ends


def align_characters(text, joined):
    """For each character of the pieces its position in the text, or None."""
    folded = list(map(cleaning.fold_characters, text))
    band = abs(len(text) - len(joined)) + 5
    for width in (band, 2 * band):
        lengths, moves = fill_table(folded, joined, width)
        best = lengths.get((len(text) - 1, len(joined) - 1), 0)
        if best > 0.8 * len(text):
            break
    if best < 0.8 * len(text):
        return None
    known = [None] * len(joined)
    row, column = len(text) - 1, len(joined) - 1
    while row >= 0 and column >= 0 and moves.get((row, column)):
        move = moves[row, column]
        if move == "match":
            known[column] = row
        row -= move != "left"
        column -= move != "up"
    return known


def fill_table(folded, joined, band):
    lengths, moves = {}, {}
    for row, character in enumerate(folded):
        columns = range(max(0, row - band), min(len(joined), row + band))
        for column in columns:
            best, move = 0, None
            if row > 0:
                best, move = lengths.get((row - 1, column), 0), "up"
            left = lengths.get((row, column - 1), 0)
            if left > best:
                best, move = left, "left"
            match = lengths.get((row - 1, column - 1), 0) + 1
            if character == joined[column] and match > best:
                best, move = match, "match"
            lengths[row, column], moves[row, column] = best, move
    return lengths, moves


def fill_gap(known, place, total, *, is_start):
    """The rule for a character without a partner."""
    if known[place] is not None:
        return known[place]
    later = [i for i in known[place:] if i is not None]
    earlier = [i for i in known[:place] if i is not None]
    if not earlier:
        return 0 if is_start else max(later[0] - 1, 0)
    before = earlier[-1]
    if not later:
        if before == total - 1:
            return before
        return before + 1 if is_start else total - 1
    after = later[0]
    if after > before + 1:
        return before + 1 if is_start else after - 1
    return after if is_start else before
