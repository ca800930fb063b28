"""What `--help` and `--helpfull` print.

`--help` lists the options of `GROUPS` that a command has, in that order, and
those that must be given.
`--helpfull` lists the others, too.
"""

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 80
_INDENT = " " * 6
_KINDS = {str: "TEXT", int: "NUMBER", float: "NUMBER"}

# By purpose, most used first. An option that is not here is rarely needed.
GROUPS = {
    "Model": """
        albert_config_file run_dir run_dirs saved_model from to checkpoint
        init_checkpoint word_embeddings_file task
        teacher teacher_pooling teacher_weight temperature
        spm_model_file vocab_file do_lower_case
        squad_version num_labels labels pairs new_head
        pooling hidden_dropout_prob attention_probs_dropout_prob
    """,
    "Data": """
        input_file eval_input_file train_file dev_file test_file predict_file
        text_columns label_column id_column header class_weights dev_share
        multi_label label_separator label_thresholds regression
        query_column ranking_loss ndcg_at windows window_stride
        data_dir train_examples dev_examples max_score
        squad_file race_dir task_name tasks task_module eval_file
        calibration_file
        input_format text_column split_sentences language
        max_document_sentences vocab_size
        max_seq_length max_predictions_per_seq masked_lm_budget masking_time
        pack_sequences records cross_documents phrase_file entity_file
        dupe_factor short_seq_prob masked_lm_prob ngram mask_levels
        doc_stride max_query_length max_answer_length n_best_size
        max_qa_length num_options null_score_diff_threshold
        is_training split num_examples statistics
        num_stories num_task_examples random_seed
    """,
    "Training": """
        do_train do_eval do_predict num_train_steps num_train_epochs
        train_batch_size learning_rate encoder_learning_rate optimizer
        num_warmup_steps
        warmup_proportion train_step warmup_step max_minutes
        objective sentence_objective markers_file task_embeddings
        eval_batch_size predict_batch_size batch_size
        max_eval_steps best_metric best_score save_checkpoints_steps
        keep_checkpoint_max exit_layers
        early_stopping_evaluations num_runs from_mnli recipe_dir overrides seed
    """,
    "Devices": """
        precision distribution_strategy gradient_accumulation_steps recompute
        worker_hosts task_index tpu_name num_workers num_processes
        dask_scheduler
    """,
    "Output": """
        output_dir output_file output_prefix export_dir cached_dir num_shards
        format with_text depth adaptive patience entropy
        signature strict overwrite
        host port batch_wait max_waiting max_body_bytes
    """,
}


@dataclasses.dataclass(frozen=True)
class Flag:
    """One option, ready to become a flag.

    Attributes:
        name: On the command line, without dashes.
        type: `str`, `int`, `float` or `bool`.
        optional: Whether None is allowed.
        default: `dataclasses.MISSING` if it must be given.
        metadata: The other arguments of `options.option`.
    """

    name: str
    type: type
    optional: bool
    default: Any
    metadata: Mapping[str, Any]

    @property
    def is_required(self) -> bool:
        return self.default is dataclasses.MISSING


def text(description: str, flags: Sequence[Flag], full: bool) -> str:
    """Return the help of a command; `full` has what is rarely needed, too."""
    remaining = {flag.name: flag for flag in flags}
    parts = [description.strip()]
    for title, names in GROUPS.items():
        members = [remaining.pop(n) for n in names.split() if n in remaining]
        if members:
            parts.append(f"{title}:\n{describe(members)}")
    if needed := [f for f in remaining.values() if f.is_required]:
        parts.insert(1, f"Required:\n{describe(needed)}")
    rest = [f for f in remaining.values() if not f.is_required]
    if full and rest:
        parts.append(f"Rarely needed:\n{describe(rest)}")
    if full:
        parts.append("--flagfile=FILE reads options from a file, one a line.")
    else:
        parts.append(f"--helpfull has {len(rest)} more.")
    return "\n\n".join(parts) + "\n"


def describe(flags: Sequence[Flag]) -> str:
    """Return some lines for each option.

    Example:
          --max_seq_length=NUMBER
              Tokens per example. A number from 1 to 65,536. Default: 512.
    """
    lines = []
    for flag in flags:
        usage, about = _usage_and_text(flag)
        lines.append(f"  {usage}")
        lines += textwrap.wrap(
            about,
            WIDTH,
            initial_indent=_INDENT,
            subsequent_indent=_INDENT,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def _usage_and_text(flag: Flag) -> tuple[str, str]:
    about, value = flag.metadata["help"], _KINDS.get(flag.type, "")
    choices, within = flag.metadata["choices"], flag.metadata["within"]
    if within:
        about += f" A number {within}."
    if choices and len("|".join(choices)) <= WIDTH // 2:
        value = "|".join(choices)
    elif choices:
        about += f" One of {', '.join(choices)}."
    usage = f"--{flag.name}={value}" if value else f"--[no]{flag.name}"
    if flag.metadata["positional"]:
        usage = f"[--{flag.name}=]{value}"
    if flag.is_required:
        return f"{usage} (required)", about
    if flag.default not in (None, ""):
        default = str(flag.default)
        about += f" Default: {default.lower() if not value else default}."
    return usage, about
