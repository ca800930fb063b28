"""What every command writes, and from what; see `test_outputs`."""

from typing import NamedTuple


class Writes(NamedTuple):
    """Files that a command writes; all of them are known before it starts."""

    command: str
    option: str  # Names them.
    endings: tuple[str, ...]  # Of what is written, behind the option's value.
    reads: str | None  # An option that names a file to read.
    changes: dict[str, object] = {}


RUN = tuple(
    """
    /albert_config.json /dev_outputs.npz /eval_results.txt /learning_curves.png
    /metrics.jsonl /null_odds.json /predict_results.txt /run_card.md
    /scores.json /scores.md /test_results.tsv /RTE.tsv
    """.split()
)


def pieces(command: str, *endings: str) -> Writes:
    endings = (*endings, ".normalization.json")
    return Writes(command, "output_prefix", endings, "input_file")


def file(command, *endings: str, reads="input_file", **changes) -> Writes:
    return Writes(command, "output_file", endings or ("",), reads, changes)


def folder(command, reads: str | None, *endings: str, **changes) -> Writes:
    return Writes(command, "output_dir", endings or RUN, reads, changes)


def converted(*endings: str, **changes: object) -> Writes:
    command = "convert_checkpoint"
    return Writes(command, "to", endings, "albert_config_file", changes)


CONFIG = "albert_config_file"
WRITER = "create_pretraining_data"
WRITES = (
    pieces("train_wordpiece", ".txt"),
    pieces("train_sentencepiece", ".model", ".vocab"),
    file("split_sentences"),
    file("extract_passages", reads="squad_file"),
    file("make_word_embeddings", "", ".json"),
    file("create_finetuning_data", "", ".json"),
    file(WRITER, "", ".manifest.json", ".card.md", ".card.png"),
    file(
        WRITER,
        "-00001-of-00002",
        "-00000-of-00002.card.md",
        reads="spm_model_file",
        num_shards=2,
    ),
    file("predict"),
    file("mine_negatives", reads="train_file"),
    converted(
        *"/config.json /model.safetensors /README.md /spiece.model".split(),
        *"/spiece.normalization.json /tokenizer.json".split(),
        *"/tokenizer_config.json /special_tokens_map.json".split(),
    ),
    converted(".index", ".data-00000-of-00001", format="tf1"),
    converted(".index", ".data-00000-of-00001", format="tf2"),
    folder(
        "make_demo_data",
        None,
        "/corpus/train.txt",
        "/glue/CoLA/dev.tsv",
        "/ABOUT.txt",
    ),
    folder("run_pretraining", CONFIG),
    folder("run_classifier", CONFIG),
    folder("run_classifier", CONFIG, "/scores.md", "/RTE.tsv", num_runs=2),
    folder("run_squad", "train_file"),
    folder("run_race", CONFIG),
    folder("run_embeddings", "train_file"),
    folder("run_tagger", CONFIG),
    folder("distill", "train_file"),
    folder("run_glue", "vocab_file", "/glue_table.md"),
    Writes("run_glue", "submission_file", ("",), "vocab_file"),
    folder("ensemble", None, "/ensemble.json", *RUN[1:]),
)
