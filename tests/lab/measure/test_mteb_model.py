"""A model of ours in mteb: `make test-torch`. No network: texts of our own."""

import numpy as np
import pytest
from scipy import stats

from albert_tf.common import prompts
from lab.measure import mteb_model, text_models
from tests.conftest import FIXTURES

pytestmark = pytest.mark.torch


def test_queries_and_documents_get_their_prompts(monkeypatch):
    import mteb.types

    texts = '{"query": "q", "passage": "p"}'

    def find(_, __, prompt="passage"):
        given = prompts.PromptOptions(texts, prompt)

        def encode(rows):
            return np.float32([[given.before == name for name in "qp"]])

        return text_models.TextModel("fake", [], lambda: encode, given)

    monkeypatch.setattr(text_models, "find", find)
    model = mteb_model.MtebModel("x")
    for kind, expected in (
        (None, [0, 1]),
        (mteb.types.PromptType.query, [1, 0]),
        (mteb.types.PromptType.document, [0, 1]),
    ):
        vectors = model.encode([{"text": ["a"]}], prompt_type=kind)
        np.testing.assert_array_equal(vectors, [expected])


def test_mteb_scores_a_task_of_our_texts():
    import datasets
    import mteb
    from mteb.abstasks import sts

    lines = (FIXTURES / "own_text" / "corpus.txt").read_text().splitlines()
    texts = [line for line in lines if line.strip()][:13]
    pairs = list(zip(texts, texts[1:], strict=False))

    class OwnTask(sts.AbsTaskSTS):
        min_score, max_score = 0, 5
        metadata = mteb.TaskMetadata(
            name="OwnPairs",
            dataset={"path": "none/none", "revision": "1"},
            description="Neighbouring lines.",
            type="STS",
            category="t2t",
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
        )

        def load_data(self, *_, **__):
            rows = [
                {"sentence1": one, "sentence2": other, "score": n % 5}
                for n, (one, other) in enumerate(pairs)
            ]
            self.dataset = {"test": datasets.Dataset.from_list(rows)}
            self.data_loaded = True

    model = mteb_model.MtebModel("albert_small_en")
    assert isinstance(model, mteb.EncoderProtocol)
    results = mteb.evaluate(model, OwnTask(), cache=None)
    (score,) = results.task_results[0].scores["test"]
    vectors = model.vectors(texts)
    cosines = (vectors[:-1] * vectors[1:]).sum(1)
    expected = stats.spearmanr(cosines, [n % 5 for n in range(len(pairs))])
    assert score["cosine_spearman"] == pytest.approx(expected.statistic)
