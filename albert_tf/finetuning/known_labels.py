"""Which labels a run has: those of its file, of its folder, of a checkpoint."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from albert_tf.common import configs, errors, scores
from albert_tf.finetuning import finetuning_options
from albert_tf.finetuning.glue import glue_tasks
from albert_tf.model.checkpoints import checkpoint_reader, huggingface
from albert_tf.training import run_folder


def _folder_of(model: str) -> str:
    """Return the folder of weights, of several runs that of the best."""
    folder = run_folder.folder_of(configs.find_checkpoint(model))
    return scores.best_folder(folder)


def _has_head(folder: str, head: str) -> bool:
    if not huggingface.is_folder(folder):
        return False
    return head in checkpoint_reader.read(folder).shapes


def started(output_dir: str) -> str | None:
    """Return the folder of the run that goes on, or of the first of several.

    None for a start that was broken off before its first checkpoint.
    """
    folder = run_folder.first(output_dir)
    return folder if folder and run_folder.is_trained(folder) else None


def scale_of_model(model: str) -> dict[str, Any]:
    """Return `label_mean` and `label_deviation` of what a model predicts.

    They are missing, or None, where it is no regression with a table; the head
    of a Hugging Face folder gives the numbers themselves.
    """
    folder = _folder_of(model)
    if run_folder.is_run(folder):
        values = run_folder.read(folder).options
        return {n: values.get(n) for n in ("label_mean", "label_deviation")}
    is_own = _has_head(folder, "output_bias") and (
        huggingface.read_details(folder).is_regression
    )
    return {"label_mean": 0.0, "label_deviation": 1.0} if is_own else {}


@dataclasses.dataclass(frozen=True)
class Names:
    """How the labels of a kind of task are kept.

    Attributes:
        option: The option of a run that lists them.
        parse: From its value to the labels; none of None.
        head: A variable that Hugging Face folders have with such a head.
    """

    option: str
    parse: Callable[[str | None], Sequence[str]]
    head: str

    def of_model(self, model: str) -> Sequence[str]:
        folder = _folder_of(model)
        if run_folder.is_run(folder):
            run = run_folder.read(folder)
            values = run.options
            glue = glue_tasks.find(str(values.get("task_name")))
            labels = run.facts.get("labels") or self.parse(
                values.get(self.option)
            )
            return labels or (glue.labels if glue else ())
        if not _has_head(folder, self.head):
            return ()
        return huggingface.read_details(folder).labels

    def check_order(
        self,
        settings: finetuning_options.FinetuningOptions,
        labels: Sequence[str],
    ) -> None:
        """Refuse a head that has the labels of a new run in another order."""
        init, new = settings.init.init_checkpoint, settings.init.new_scopes
        if settings.new_head or f"{self.head}/".startswith(
            tuple(f"{scope}/" for scope in new)
        ):
            return
        if not (init and labels) or started(settings.output_dir):
            return
        known = self.of_model(init)
        if [*known] != [*labels] and sorted(known) == sorted(labels):
            raise errors.UserError(
                f"`init_checkpoint={init}` holds a model with the "
                f"{self.option} {', '.join(known)}, the task has them in the "
                f"order {', '.join(labels)}. To train a new head for these, "
                "add `new_head`."
            )

    def choose(
        self,
        settings: finetuning_options.FinetuningOptions,
        path: str | None,
        find: Callable[[str], Sequence[str]],
    ) -> Sequence[str]:
        """Return the labels of a training file, else those of a model."""
        init = settings.init.init_checkpoint
        known: Sequence[str] = ()
        if init and not settings.new_head:
            known = self.of_model(init)
        if not path:
            folder = started(settings.output_dir)
            known = (folder and self.of_model(folder)) or known
            if not known:
                raise errors.UserError(
                    f"The {self.option} are not known. Give `train_file`, or "
                    f"list them as `{self.option}`."
                )
            return known
        found = find(path)
        if known and set(known) != set(found):
            raise errors.UserError(
                f"`init_checkpoint={init}` holds a model of other "
                f"{self.option} than {path}: {', '.join(known)}. To train a "
                "new head for those of the file, add `new_head`."
            )
        return known or found
