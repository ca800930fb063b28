import numpy as np
import pytest

from albert_tf.data import tfrecord
from albert_tf.finetuning import overlaps
from albert_tf.tasks.squad import data as squad_data
from albert_tf.tasks.squad import features as squad_features
from albert_tf.text import tokenization
from tests.conftest import refused

CONTEXT = "The rain falls on the hill and the rain feeds the river."


def ask(text, context=CONTEXT, answer=None, id_="q"):
    answers = ()
    if answer is not None:
        answers = (squad_data.place_answer(context, answer, 0),)
    return squad_data.Question(id_, text, context, answers, not answers)


def make_windows(questions, tokenizer, length=24, stride=4, query=8):
    options = squad_features.PassageWindows(stride, query)
    return squad_features.make_windows(questions, tokenizer, options, length)


def merge(blocks):
    blocks = list(blocks)
    return {
        name: np.concatenate([block[name] for block in blocks])
        for name in blocks[0]
    }


def test_features(tiny_tokenizer):
    question = ask("What falls?", answer="rain")
    windows = make_windows([question], tiny_tokenizer)
    values = merge(squad_features.make_features(windows, tiny_tokenizer, 24))
    query = tiny_tokenizer.encode("What falls?")[:8]
    paragraph = tiny_tokenizer.encode(CONTEXT)
    room = 24 - len(query) - 3
    assert len(windows) > 1
    for row, begin in enumerate(range(0, 4 * len(windows), 4)):
        part = paragraph[begin : begin + room]
        ids = [2, *query, 3, *part, 3]
        padding = [0] * (24 - len(ids))
        first = len(query) + 2
        assert values["input_ids"][row].tolist() == ids + padding
        mask = [1] * len(ids) + padding
        assert values["input_mask"][row].tolist() == mask
        segments = [0] * first + [1] * (len(part) + 1) + padding
        assert values["segment_ids"][row].tolist() == segments
        p_mask = [0] + [1] * (first - 1) + [0] * len(part)
        p_mask += [1] * (24 - len(p_mask))
        assert values["p_mask"][row].tolist() == p_mask
    numbers = 1_000_000_000 + np.arange(len(windows))
    assert values["unique_ids"].tolist() == numbers.tolist()


def test_a_paragraph_is_cut_once_for_all_of_its_questions(
    tiny_tokenizer, monkeypatch
):
    cut = []
    encode = tokenization.Tokenizer.encode_with_offsets

    def counted(self, text):
        cut.append(text)
        return encode(self, text)

    monkeypatch.setattr(tokenization.Tokenizer, "encode_with_offsets", counted)
    questions = [ask("What?"), ask("Who?"), ask("Why?", "A hill."), ask("Is?")]
    make_windows(questions, tiny_tokenizer)
    assert cut == [CONTEXT, "A hill."]


def test_windows_of_a_question_do_not_depend_on_the_others(tiny_tokenizer):
    questions = [
        ask("What?", answer="rain"),
        ask("Who is it?", "A hill.", "hill"),
    ]

    def features(questions):
        windows = make_windows(questions, tiny_tokenizer)
        positions = squad_features.find_answers(windows, questions)
        return squad_features.make_features(
            windows, tiny_tokenizer, 24, positions
        )

    both = make_windows(questions, tiny_tokenizer)
    together = merge(features(questions))
    alone = merge([*features(questions[:1]), *features(questions[1:])])
    assert alone.keys() == together.keys()
    for name, array in alone.items():
        if name != "unique_ids":
            assert (array == together[name]).all(), name
    assert set(together["is_impossible"].tolist()) == {0, 1}
    assert [span.stop for span in both.spans] == [len(both) - 1, len(both)]


def test_many_windows_come_in_blocks(tiny_tokenizer):
    questions = [ask(f"Is it {i}?", "A hill.") for i in range(1500)]
    windows = make_windows(questions, tiny_tokenizer)
    more = {"start_positions": np.arange(1500)}
    blocks = list(
        squad_features.make_features(windows, tiny_tokenizer, 24, more)
    )
    assert [len(block["input_ids"]) for block in blocks] == [1024, 476]
    assert merge(blocks)["start_positions"].tolist() == [*range(1500)]
    numbers = np.concatenate([block["unique_ids"] for block in blocks])
    assert (np.diff(numbers) == 1).all()


def test_long_questions_are_cut_and_counted(tiny_tokenizer):
    asked = ["It?", "where " * 30, "it it it it it it it it"]
    ids = [tiny_tokenizer.encode(text) for text in asked]
    size = len(ids[2])
    windows = make_windows([*map(ask, asked)], tiny_tokenizer, 40, query=size)
    assert windows.cut == [1]
    found = [query.tolist() for query in windows.queries]
    assert found == [one[:size] for one in ids]
    assert squad_features.PassageWindows() == squad_features.PassageWindows(
        128, 64
    )


def test_every_answer_is_in_the_windows_that_hold_all_of_it():
    """Pieces of one letter each, windows of up to six, a question of two."""
    context = "abcdefghij"
    pieces = squad_features.Pieces(
        np.arange(10, 20), np.arange(10), np.arange(1, 11)
    )
    spans = overlaps.split(10, 6, 3)
    assert spans == ((0, 6), (3, 6), (6, 4))
    begins, lengths = np.array(spans, np.int32).T
    for first in range(10):
        for last in range(first, 10):
            question = ask("?", context, context[first : last + 1])
            windows = squad_features.Windows(
                [pieces],
                [np.array([5, 6])],
                np.zeros(3, int),
                begins,
                lengths,
                (),
            )
            found = squad_features.find_answers(windows, [question])
            for row, (begin, length) in enumerate(spans):
                holds = begin <= first and last < begin + length
                place = 4 - begin if holds else 0
                expected = (first + place, last + place) if holds else (0, 0)
                start, end = found["start_positions"], found["end_positions"]
                assert (start[row], end[row]) == expected
                assert found["is_impossible"][row] == (not holds)


@pytest.mark.parametrize(
    "text, answer, expected",
    [
        ("two words here", "words", "words"),
        ("two words here", "words he", "words here"),
        ("two words here", "o w", "two words"),
        ('"Two" words', '"Two"', '"two"'),
        ("Caf\u00e9 noir", "Caf\u00e9", "cafe"),
        ("Half \u00bd here", "\u00bd", "1\u20442"),
        ("e\u0301 noir", "\u0301", "noir"),
        ("noir \u0301", "\u0301", "noir"),
        ("in 2012, we", "2012", "2012"),
    ],
)
def test_pieces_of_an_answer(text, answer, expected, shared_dir):
    path = shared_dir / "data" / "vocab" / "30k-clean.model"
    tokenizer = tokenization.Tokenizer(str(path))
    pieces = squad_features.Pieces(*tokenizer.encode_with_offsets(text))
    start = text.index(answer)
    first, last = squad_features.find_pieces(pieces, start, start + len(answer))
    chosen = tokenizer.encode_pieces(text)[first : last + 1]
    assert "".join(chosen).replace("▁", " ").strip() == expected


def test_a_paragraph_without_pieces_has_no_window(shared_dir):
    path = shared_dir / "data" / "vocab" / "30k-clean.model"
    tokenizer = tokenization.Tokenizer(str(path))
    questions = [ask("What?", "\u0301", "\u0301"), ask("It?", "A hill.")]
    windows = make_windows(questions, tokenizer)
    assert [span.stop - span.start for span in windows.spans] == [0, 1]
    positions = squad_features.find_answers(windows, questions)
    assert positions["is_impossible"].tolist() == [1]


def test_parts_of_a_file_are_numbered_in_a_row(tiny_tokenizer):
    questions = [ask("What falls?"), ask("Who is it?", "A hill.")]
    layout = squad_features.squad_layout(24, is_training=False)

    def encode(questions):
        windows = make_windows(questions, tiny_tokenizer)
        (values,) = squad_features.make_features(windows, tiny_tokenizer, 24)
        messages = tfrecord.encode_batch(layout, values)
        return tfrecord.frame_batch(messages)

    first, second = encode(questions[:1]), encode(questions[1:])
    whole = first + squad_features.renumber(second, len(first))
    assert whole == encode(questions)
    assert whole != first + second


def test_smallest_window(tiny_tokenizer):
    with refused("`max_seq_length=4` leaves no"):
        squad_features.PassageWindows(128, 1).check_length(4)
    questions = [ask("Where does the rain fall?")]
    windows = make_windows(questions, tiny_tokenizer, 5, 128, 1)
    assert set(windows.length.tolist()) == {1}
    assert len(windows) == len(tiny_tokenizer.encode(CONTEXT))
