"""Tables of the user: one task of several kinds."""

from albert_tf.finetuning import base
from albert_tf.tasks.table import kind, labels, numbers
from albert_tf.tasks.table.data import TableOptions

KINDS: dict[str, type[base.Task]] = {
    "label": labels.LabelTask,
    "labels": labels.MultiLabelTask,
    "number": numbers.NumberTask,
    "relevance": numbers.RankingTask,
}


class TableTask(kind.Kind):
    """A table of any kind: the options tell which one."""

    @classmethod
    def variant(cls, options: TableOptions) -> type[base.Task]:
        return KINDS[options.kind]


TASK = TableTask
