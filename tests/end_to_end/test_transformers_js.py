"""Folders in transformers.js, in Node and on a page: `make test-browser`."""

import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import threading

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import convert_checkpoint
from albert_tf.model.heads import classification
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.text import tokenization
from tests.albert_tf.model import passes
from tests.conftest import FIXTURES, tiny_config

pytestmark = pytest.mark.browser
TEXTS = ["Mara gave Ivo the rope.", "The lamp, at the mill?"]
HERE = pathlib.Path(__file__).parent / "transformers_js"
PROGRAM = """
import * as transformers from '@huggingface/transformers';
import { answers } from './vectors.mjs';
const found = await answers(transformers, './models/', %s);
console.log(JSON.stringify(found));
"""
# Of 8-bit numbers; those in float32 differ by rounding only.
ATOL = {"fp32": 1e-5, "q8": 0.1}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the pages and two models; what these should answer."""
    folder = tmp_path_factory.mktemp("site")
    packages = pathlib.Path(os.environ["ALBERT_TF_JS"]).resolve()
    packages /= "node_modules"
    for name, target in {
        "node_modules": packages,
        "package": packages / "@huggingface" / "transformers",
        "onnxruntime": packages / "onnxruntime-web" / "dist",
    }.items():
        (folder / name).symlink_to(target)
    shutil.copytree(HERE, folder, dirs_exist_ok=True)
    (folder / "texts.json").write_text(json.dumps({"texts": TEXTS}))
    (folder / "node.mjs").write_text(PROGRAM % json.dumps(TEXTS))
    options = tokenization.VocabularyOptions(
        str(FIXTURES / "own_text/spm.model")
    )
    tokenizer = tokenization.load(options)
    config = tiny_config(vocab_size=tokenizer.vocab_size)
    encoder = AlbertModel(config)
    models = {
        "vectors": ("sentence_transformers", encoder),
        "labels": (
            "huggingface",
            classification.AlbertClassifier(AlbertModel(config), 3),
        ),
    }
    outputs = {}
    for name, (format_, model) in models.items():
        passes.fill(model, 0.3)
        source = folder / "sources" / name
        tf.train.Checkpoint(model=model).write(str(source / "model.ckpt"))
        (source / "albert_config.json").write_text(config.to_json())
        convert_checkpoint.run(
            convert_checkpoint.ConvertOptions(
                from_=str(source / "model.ckpt"),
                to=str(folder / "models" / name),
                format=format_,
                onnx=True,
                vocabulary=options,
            )
        )
        outputs[name] = []
        for text in TEXTS:
            ids = [tokenizer.cls_id, *tokenizer.encode(text), tokenizer.sep_id]
            outputs[name].append(model({"input_ids": tf.constant([ids])}))
    means = [
        o["sequence_output"][0].numpy().mean(0) for o in outputs["vectors"]
    ]
    vectors = [mean / np.linalg.norm(mean) for mean in means]
    labels = [tf.nn.softmax(o["logits"])[0].numpy() for o in outputs["labels"]]
    return folder, vectors, labels


def assert_same(answers, vectors, labels):
    assert answers.keys() == ATOL.keys()
    for dtype, atol in ATOL.items():
        theirs = answers[dtype]
        np.testing.assert_allclose(theirs["vectors"], vectors, 0, atol)
        shares = [
            [row["score"] for row in sorted(rows, key=lambda row: row["label"])]
            for rows in theirs["labels"]
        ]
        np.testing.assert_allclose(shares, labels, 0, atol)


def test_node_gives_our_answers(site):
    folder, *expected = site
    done = subprocess.run(
        ["node", "node.mjs"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert_same(json.loads(done.stdout.splitlines()[-1]), *expected)


def test_a_page_gives_our_answers(site):
    from playwright import sync_api

    folder, *expected = site
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=folder
    )
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        sync_api.sync_playwright() as playwright,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page, asked = browser.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.wait_for_selector("#answers:not(:empty)", timeout=60_000)
        assert_same(json.loads(page.inner_text("#answers")), *expected)
        # Nothing was fetched from elsewhere.
        assert all(u.startswith((address, "data:", "blob:")) for u in asked)
        browser.close()
        server.shutdown()
