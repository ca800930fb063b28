import pytest

from albert_tf.text import wordpiece_rules


@pytest.mark.parametrize(
    "text, cleaned",
    [
        (" \tHäLLo!how  \n Are yoU?  ", "hallo!how are you?"),
        ("a\x00b\u200bc\ufffdd\x0be", "abcde"),
        ("a\u3000b\u00a0c\u2028d\re", "a b c d e"),
        ("a今天b", "a 今 天 b"),
        ("\uf900\U00020000", "\u8c48 \U00020000"),
        ("が한", "か\u1112\u1161\u11ab"),
        ("ΑΣ İ ½ ﬁ", "ας i ½ ﬁ"),
    ],
)
def test_clean_text(text, cleaned):
    assert wordpiece_rules.clean_text(text, lower=True) == cleaned
    assert wordpiece_rules.clean_text(" Hä\x00\n天 ", lower=False) == "Hä 天"


@pytest.mark.parametrize(
    "text, words",
    [
        ("a$b^c`d~", ["a", "$", "b", "^", "c", "`", "d", "~"]),
        ("今、天。《a》", ["今", "、", "天", "。", "《", "a", "》"]),
        ("-a…", ["-", "a", "…"]),
        ("a€b°c", ["a€b°c"]),  # Symbols outside ASCII are no punctuation.
    ],
)
def test_words_end_at_punctuation(text, words):
    cleaned = wordpiece_rules.clean_text(text, lower=True)
    assert wordpiece_rules.split_words(cleaned) == words


def test_ascii_is_letters_digits_spaces_and_punctuation():
    for character in map(chr, range(33, 127)):
        is_mark = wordpiece_rules.is_punctuation(character)
        assert is_mark is not character.isalnum()


@pytest.mark.parametrize("first, last", wordpiece_rules._CJK_RANGES)
def test_chinese_blocks_have_their_ends(first, last):
    assert wordpiece_rules.is_cjk(first) and wordpiece_rules.is_cjk(last)
    edges = "".join(map("".join, wordpiece_rules._CJK_RANGES))
    for neighbour in (chr(ord(first) - 1), chr(ord(last) + 1)):
        assert wordpiece_rules.is_cjk(neighbour) is (neighbour in edges)


def test_words_that_cannot_be_built_are_unknown():
    ids = {"a": 1, "ab": 2, "##bc": 3, "##d": 4}
    assert wordpiece_rules.cut_word("abd", ids, 9) == [2, 4]
    assert wordpiece_rules.cut_word("abc", ids, 9) == [9]
    ids = {"a": 1, "##a": 2}
    assert wordpiece_rules.cut_word("a" * 200, ids, 9) == [1] + [2] * 199
    assert wordpiece_rules.cut_word("a" * 201, ids, 9) == [9]
    assert wordpiece_rules.cut_word("aaa", ids, 9, longest=2) == [9]


def test_pieces_know_where_they_come_from():
    pieces = ["a", "ab", "##bc", "##d", "今"]
    ids = {piece: number for number, piece in enumerate(pieces)}
    found = wordpiece_rules.encode_with_offsets(
        " A\x00bd今\u0301 Äb zz",
        pieces,
        cut=lambda word: wordpiece_rules.cut_word(word, ids, 9),
        unk_id=9,
        lower=True,
        keep_accents=False,
    )
    starts, ends = [1, 4, 5, 8, 11], [4, 5, 6, 10, 13]
    assert found == ([1, 3, 4, 1, 9], starts, ends)
