"""The finetuning part of the measure, from results of single runs."""

import pytest

from lab.measure import finetuning, report


def result(task, start, seed, value):
    return {
        "task": task,
        "start": start,
        "seed": seed,
        "value": value,
        "metric": "f1" if task == "squad" else "accuracy",
        "baseline": 50.0 if task == "squad" else 0.5,
        "steps": 9,
    }


def test_pretrained_minus_random_seed_by_seed():
    found = finetuning.summarize(
        [
            result("rte", "random", 1, 0.5),
            result("rte", "pretrained", 1, 0.6),
            result("rte", "pretrained", 2, 0.75),
            result("rte", "random", 2, 0.55),
            result("squad", "random", 1, 40.0),
            result("squad", "random", 2, 41.0),
            result("squad", "pretrained", 2, 44.0),
            result("squad", "pretrained", 1, 45.0),
        ]
    )
    rte, squad = found["tasks"]["rte"], found["tasks"]["squad"]
    assert rte["majority"] == 50.0 and squad["majority"] == 50.0
    assert rte["random"] == pytest.approx({"1": 50.0, "2": 55.0})
    assert squad["pretrained"] == {"1": 45.0, "2": 44.0}
    assert rte["difference"]["mean"] == pytest.approx(15.0)
    assert rte["difference"]["low"] == pytest.approx(10.0)
    assert rte["difference"]["high"] == pytest.approx(20.0)
    assert squad["difference"]["mean"] == pytest.approx(4.0)
    assert found["mean_difference"]["mean"] == pytest.approx(9.5)
    assert found["mean_difference"]["count"] == 4


@pytest.mark.parametrize(
    ("start", "shown"),
    [("pretrained", "– | 60.0 ± 0.0"), ("random", "60.0 ± 0.0 | –")],
)
def test_nothing_is_compared_where_all_started_alike(start, shown):
    found = finetuning.summarize([result("rte", start, 1, 0.6)])
    assert found["tasks"]["rte"][start] == {"1": 60.0}
    text = report.to_markdown({"finetuning": {"results": found}})
    assert text.splitlines()[-1] == f"| rte | accuracy | 50.0 | {shown} | – |"
