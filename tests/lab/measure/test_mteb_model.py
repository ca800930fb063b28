"""A model of ours in mteb: `make test-torch`. No network: texts of our own."""

import pytest
from scipy import stats

from lab.measure import mteb_model
from tests.conftest import FIXTURES

pytestmark = pytest.mark.torch


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
