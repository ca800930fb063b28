"""From a task to its service."""

from albert_tf.common import errors
from albert_tf.finetuning import base
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.serving.services import service


def of_task(task: base.Task, encoder: AlbertModel) -> service.Service:
    """Serve the model of a task, with a new head."""
    model = task.make_model(encoder)
    # A subclass of a head may compute something else.
    head = type(model)
    maker = task.services().get(head)
    if maker is None:
        raise errors.UserError(
            f"The task {task.name} with the head {head.__name__} cannot be "
            "exported: its slice has no service for it. Use albert_tf.predict."
        )
    made: service.Service = maker(task, model)
    return made
