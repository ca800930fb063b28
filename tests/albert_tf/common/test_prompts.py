"""What is put before texts: options, and the keys of sentence-transformers."""

import pytest

from albert_tf.common import prompts
from tests.conftest import refused

BOTH = '{"query": "query: ", "passage": "passage: "}'


@pytest.mark.parametrize(
    "written", ["query: ", '["query: "]', '{"query": 1}', '{"": "query: "}']
)
def test_prompts_are_texts_by_name(written):
    with refused("prompts.* is no JSON object of names and texts"):
        prompts.PromptOptions(written)


@pytest.mark.parametrize(
    ("given", "before"),
    [
        ((None, None), "query: "),
        ((None, "passage"), "passage: "),
        ((None, ""), ""),
        (('{"a": "A "}', None), ""),
        (("{}", None), ""),
    ],
)
def test_what_is_given_counts(given, before):
    made = prompts.PromptOptions(*given).with_defaults(BOTH, "query")
    assert made.before == before


def test_an_unknown_name_is_refused():
    with refused("'q' is no prompt. There are passage, query"):
        prompts.PromptOptions(None, "q").with_defaults(BOTH, None)
    with refused("'q' is no prompt. There are none"):
        prompts.PromptOptions(None, "q").with_defaults(None, None)


def test_a_model_with_prompts_says_once_that_it_is_asked_without(caplog):
    prompts.warn.cache_clear()
    for name in ("query", "", None, None):
        prompts.warn(prompts.PromptOptions(BOTH, name), "Name one.")
    prompts.warn(prompts.NONE, "Name one.")
    (message,) = caplog.messages
    assert "the prompts query, passage, and texts are read with" in message


def test_a_prompt_that_no_line_can_name_is_said_once(caplog):
    prompts._say_unread.cache_clear()
    for values in ({"text": "a"}, {"prompt": "q"}, {"prompt": "p"}):
        prompts.warn_of_names(values)
    (message,) = caplog.messages
    assert "Lines have a `prompt`, which is not read" in message
