"""The page of the server in Chromium, as a user sees it."""

import shutil

import numpy as np
import pytest

from tests.albert_tf.serving.server import http_server

pytestmark = pytest.mark.browser


def guess(inputs):
    gaps = max(text.count("[MASK]") for text in inputs["text"])
    pieces = np.full([len(inputs["text"]), gaps, 2], b"", "O")
    for row, text in enumerate(inputs["text"]):
        for gap in range(text.count("[MASK]")):
            pieces[row, gap] = ["\u2581harbour".encode(), b"<b>island</b>"]
    shares = np.broadcast_to(np.float32([0.75, 0.25]), pieces.shape)
    return {"pieces": pieces, "probabilities": shares}


@pytest.fixture(scope="module")
def address():
    fill = http_server.Signature(
        guess, ["pieces", "probabilities"], text=http_server.texts()
    )
    served = [
        http_server.make_model("pairs"),
        http_server.make_model("words", fill_mask=fill),
    ]
    with http_server.running(http_server.make_app(*served)) as (_, port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def browser():
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser, address):
    """The page, opened; nothing may be wrong in it at the end."""
    page = browser.new_page(viewport={"width": 800, "height": 900})
    errors, asked = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.set_default_timeout(20_000)
    yield page
    assert not errors
    assert all(url.startswith((address, "data:")) for url in asked)
    page.close()


def test_a_pair_is_typed_and_answered(page):
    page.wait_for_selector("button")
    assert page.title() == "Classes \u2013 ALBERT"
    before = page.screenshot()
    page.fill("textarea[name=text]", "It rains.")
    page.fill("textarea[name=text_pair]", "It rains.")
    page.click("button")
    page.wait_for_selector("#answer h2")
    assert page.inner_text("#answer h2") == "same"
    bars = page.locator("#answer li").all_inner_texts()
    assert [bar.split() for bar in bars] == [
        ["same", "100.0", "%"],
        ["other", "0.0", "%"],
    ]
    # The bars are drawn: the first is as wide as its track, the other not.
    track = page.locator(".track").first.bounding_box()
    widths = [
        page.locator(".bar").nth(n).bounding_box()["width"] for n in (0, 1)
    ]
    assert widths == [track["width"], 0]
    assert page.screenshot() != before


def test_another_model_is_chosen(page):
    page.select_option("#model", "words")
    assert page.inner_text("h1") == "Masked words"
    page.fill("textarea", "The ferry leaves the [MASK] <i>now</i>.")
    page.press("textarea", "Tab")
    page.keyboard.press("Enter")  # The button has the focus.
    page.wait_for_selector("#answer mark")
    assert page.inner_text("#answer .passage") == (
        "The ferry leaves the harbour <i>now</i>."
    )
    assert page.inner_text("mark") == "harbour"
    # What a model says is text, whatever is in it.
    assert "<b>island</b>" in page.inner_text("#answer")
    assert page.locator("#answer b, #answer i").count() == 0


def test_errors_are_shown_and_the_next_answer_replaces_them(page):
    page.wait_for_selector("button")
    page.fill("textarea[name=text]", " ")
    page.click("button")
    page.wait_for_selector("#error:not(:empty)")
    assert page.inner_text("#error") == "The text is empty. Fill it in."
    assert page.locator("#answer h2").count() == 0
    page.fill("textarea[name=text]", "x" * http_server.MAX_BYTES)
    page.click("button")
    page.wait_for_selector("#error:has-text('too long')")
    page.fill("textarea[name=text]", "a")
    page.click("button")
    page.wait_for_selector("#answer h2")
    assert page.inner_text("#error") == ""
    assert page.inner_text("#answer h2") == "other"


def test_a_server_that_has_ended_is_told(browser):
    with http_server.running(http_server.make_app()) as (_, port):
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}")
        page.wait_for_selector("button")
    page.click("button")
    page.wait_for_selector("#error:not(:empty)")
    assert "The server gave no answer" in page.inner_text("#error")
    page.close()


def test_endpoints_can_be_tried_in_the_browser(browser, address):
    page = browser.new_page(viewport={"width": 1000, "height": 1200})
    page.goto(f"{address}/docs")
    title = page.locator("#operations-pairs-answer_models_pairs_measure_post")
    title.wait_for(timeout=20_000)
    title.click()
    title.get_by_role("button", name="Try it out").click()
    title.locator("textarea").fill('{"text": "ab"}')
    title.get_by_role("button", name="Execute").click()
    answer = title.locator(".live-responses-table .response")
    answer.first.wait_for(timeout=20_000)
    assert '"length": 2' in answer.first.inner_text()
    page.close()
