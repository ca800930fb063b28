"""The contract of tasks, for those of run_classifier."""

from tests.albert_tf.tasks import contract
from tests.albert_tf.tasks.contract_suite import *  # noqa: F403
from tests.albert_tf.tasks.table.table_runs import *  # noqa: F403

CASES_OF_CONTRACT = {
    name
    for name, case in contract.CASES.items()
    if case.command == "classifier"
}
