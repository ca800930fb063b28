"""WikiExtractor's articles, with tags and as JSON lines."""

import io
import json

import pytest

from data_prep import split_sentences
from data_prep.vocabulary import text as vocabulary_text
from tests.conftest import refused
from tests.data_prep import reading

ARTICLES = [
    ("Salt pan", "A pan is flat.\nSalt stays. It is white.\n\nHistory."),
    ('A "B" > C', "A heron stands.\n<doc> is a word."),
    ("Empty", ""),
    ("Fog", "Fog\nfalls. Fog"),  # Its title is also the first line.
]
BODIES = [
    ["A pan is flat.", "Salt stays. It is white.", "History."],
    ["A heron stands.", "<doc> is a word."],
    [],
    ["Fog", "falls. Fog"],
]


def with_tags(attributes, title_line=True):
    return "\n".join(
        f"<doc {attributes.format(title=title)}>\n"
        + (f"{title}\n\n" if title_line else "")
        + f"{body}\n\n</doc>"
        for title, body in ARTICLES
    )


def json_lines(title_line, keys=("id", "url", "title", "text")):
    return "\n".join(
        json.dumps(
            {
                key: {
                    "id": "1",
                    "url": "u",
                    "title": title,
                    "text": f"{title}\n\n{body}" if title_line else body,
                }[key]
                for key in keys
            }
        )
        for title, body in ARTICLES
    )


FULL = 'id="3" url="https://x.org/wiki?curid=3" title="{title}"'


@pytest.mark.parametrize(
    "text",
    [
        with_tags(FULL),
        with_tags('id="3" revid="9" url="u" title="{title}"'),
        "\ufeff\n \n" + with_tags(FULL).replace("\n", "\r\n") + "\r\n",
        json_lines(title_line=True),
        "\n" + json_lines(title_line=True).replace("\n", "\n\n") + "\n",
    ],
)
@pytest.mark.parametrize("keep_titles", [False, True])
def test_articles_are_documents_without_tags(text, keep_titles):
    found = split_sentences.read_paragraphs(
        io.BytesIO(text.encode()), "x", keep_titles=keep_titles
    )
    wanted = [
        [title] * keep_titles + body
        for (title, _), body in zip(ARTICLES, BODIES, strict=True)
    ]
    assert reading.documents_of(found) == [body for body in wanted if body]


ESCAPED = "A &amp; B", "x &lt; y &amp;lt; &quot;"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('<doc id="1" title="{}">\n{}\n\n{}\n</doc>', "x < y &lt; &quot;"),
        (
            '{{"id": "1", "url": "u", "title": "{}", "text": "{}\\n{}"}}',
            "x < y &lt; &quot;",
        ),
        ('{{"title": "{}", "text": "{}\\n{}"}}', ESCAPED[1]),  # Another's.
    ],
)
def test_what_wikiextractor_writes_as_in_html_is_plain(text, kept):
    content = text.format(ESCAPED[0], *ESCAPED).encode()
    found = split_sentences.read_paragraphs(io.BytesIO(content), "x")
    assert reading.documents_of(found) == [[kept]]


def test_a_first_line_that_is_no_title_stays():
    text = b'<doc id="1" title="Salt pan">\nSalt stays.\n</doc>'
    found = split_sentences.read_paragraphs(
        io.BytesIO(text), "x", keep_titles=False
    )
    assert reading.documents_of(found) == [["Salt stays."]]


@pytest.mark.parametrize(
    "text",
    [
        with_tags('id="3" url="u"', title_line=False),
        with_tags('id="3"', title_line=False),
        json_lines(False, ["text"]),
        json_lines(False, ["id", "text"]),
    ],
)
def test_titles_are_optional(text):
    found = split_sentences.read_paragraphs(io.BytesIO(text.encode()), "x")
    assert reading.documents_of(found) == [body for body in BODIES if body]


@pytest.mark.parametrize(
    "text",
    [
        'One.\n<doc id="1">\ntwo.\n</doc>\n',
        '\f\n\nOne.\n\n\f\n\f\x1e\n\n{"text": "two"}\n',
        '<document id="1">\n\nTwo.',
        '[1, 2]\n{"text": 1}',
        "",
    ],
)
def test_other_texts_stay_as_they_are(text):
    found = split_sentences.read_paragraphs(io.BytesIO(text.encode()), "x")
    wanted = [" ".join(part.split()) for part in text.split("\n\n")]
    assert list(found) == [part for part in wanted if part]


def test_a_vocabulary_learns_no_tags(tmp_path):
    (tmp_path / "a").write_text(with_tags(FULL))
    lines = vocabulary_text.read_lines([str(tmp_path / "a")])
    assert [line for line in lines if line.strip()] == sum(BODIES, [])


def test_an_object_without_a_text_is_named():
    stream = io.BytesIO(b'{"text": "A b."}\n\n{"title": "A"}\n')
    with refused("`input_file=x`: line 3 is no J"):
        list(split_sentences.read_paragraphs(stream, "x"))
