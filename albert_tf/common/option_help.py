"""What `--help` and `--helpfull` print.

`--help` lists the options of `GROUPS` that a command has, in that order.
`--helpfull` lists the others, too.
"""

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

WIDTH = 80
REST = "Rarely needed"

# By purpose, most used first. An option that is not here is rarely needed.
GROUPS = {
    "Model": """
        albert_config_file run_dir run_dirs saved_model from to checkpoint
        init_checkpoint word_embeddings_file task
        spm_model_file vocab_file vocabularies do_lower_case
        squad_version num_labels labels pairs new_head
        pooling hidden_dropout_prob attention_probs_dropout_prob
    """,
    "Data": """
        input_file eval_input_file train_file predict_file data_dir input_dir
        squad_file race_dir task_name tasks task_module eval_file
        input_format text_column split_sentences language
        paragraphs_as_documents max_document_sentences vocab_size
        max_seq_length max_predictions_per_seq masked_lm_budget masking_time
        pack_sequences
        dupe_factor short_seq_prob masked_lm_prob ngram
        doc_stride max_query_length max_answer_length n_best_size
        max_qa_length num_options null_score_diff_threshold
        is_training split batches_from num_batches num_examples statistics
        num_stories num_task_examples max_records random_seed
    """,
    "Training": """
        do_train do_eval do_predict num_train_steps num_train_epochs
        train_batch_size learning_rate encoder_learning_rate optimizer
        num_warmup_steps
        warmup_proportion train_step warmup_step max_minutes
        objective sentence_objective
        eval_batch_size predict_batch_size batch_size
        max_eval_steps best_metric save_checkpoints_steps keep_checkpoint_max
        early_stopping_evaluations num_runs from_mnli recipe_dir overrides seed
    """,
    "Devices": """
        precision distribution_strategy gradient_accumulation_steps recompute
        loop_layers worker_hosts task_index tpu_name num_workers num_processes
        dask_scheduler
    """,
    "Output": """
        output_dir output_file output_prefix export_dir cached_dir num_shards
        format with_text signature strict overwrite allow_missing
        to_checkpoint host port
    """,
}
_KINDS = {str: "TEXT", int: "NUMBER", float: "NUMBER"}


@dataclasses.dataclass(frozen=True)
class Flag:
    """One option, ready to become a flag.

    Attributes:
        name: Its name on the command line, without dashes.
        type: `str`, `int`, `float` or `bool`.
        optional: Whether None is allowed.
        default: Its default; `dataclasses.MISSING` if it is required.
        metadata: The other arguments of `options.option`.
    """

    name: str
    type: type
    optional: bool
    default: Any
    metadata: Mapping[str, Any]

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is dataclasses.MISSING

    @property
    def help(self) -> str:
        """What it is for, and which numbers are allowed."""
        within = self.metadata["within"]
        allowed = f" A number {within}." if within else ""
        if _has_many_choices(self):
            allowed = f" One of {', '.join(self.metadata['choices'])}."
        return f"{self.metadata['help']}{allowed}"


def text(description: str, flags: Sequence[Flag], full: bool) -> str:
    """Return the help of a command.

    Args:
        description: What the command is for.
        flags: Its options.
        full: Whether to show those that are rarely needed.
    """
    groups = _grouped(flags)
    rest = groups.pop(REST)
    if full:
        groups[REST] = rest
        end = "--flagfile=FILE reads options from a file, one on each line."
    else:
        end = (
            f"--helpfull has {len(rest)} more."
            if rest
            else "These are all options."
        )
    parts = [description.strip()]
    for title, members in groups.items():
        if members:
            parts.append(f"{title}:\n{describe(members)}")
    return "\n\n".join([*parts, end]) + "\n"


def _grouped(flags: Sequence[Flag]) -> dict[str, list[Flag]]:
    """Return the flags of each group, in the order of `GROUPS`."""
    remaining = {flag.name: flag for flag in flags}
    groups = {
        title: [remaining.pop(n) for n in names.split() if n in remaining]
        for title, names in GROUPS.items()
    }
    return {**groups, REST: list(remaining.values())}


def describe(flags: Sequence[Flag]) -> str:
    """Return some lines for each option.

    Example:
          --max_seq_length=NUMBER
              Tokens per example. A number from 1 to 65,536. Default: 512.
    """
    return "\n".join(
        line
        for flag in flags
        for line in (
            f"  {_usage(flag)}",
            *_wrapped(f"{flag.help}{_default(flag)}"),
        )
    )


def _usage(flag: Flag) -> str:
    choices = flag.metadata["choices"]
    value = _KINDS.get(flag.type, "")
    if choices and not _has_many_choices(flag):
        value = "|".join(choices)
    name = f"--{flag.name}={value}" if value else f"--[no]{flag.name}"
    if flag.metadata["positional"]:
        name = f"[--{flag.name}=]{value}"
    return f"{name} (required)" if flag.is_required else name


def _has_many_choices(flag: Flag) -> bool:
    """Tell whether the choices do not fit on the line of the option."""
    choices = flag.metadata["choices"] or ()
    return len("|".join(choices)) > WIDTH // 2


def _default(flag: Flag) -> str:
    if flag.is_required or flag.default in (None, ""):
        return ""
    default = str(flag.default)
    return f" Default: {default.lower() if flag.type is bool else default}."


def _wrapped(paragraph: str) -> Iterator[str]:
    indent = " " * 6
    yield from textwrap.wrap(
        paragraph,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
