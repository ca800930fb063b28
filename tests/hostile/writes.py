"""What every command writes, and from what; see `test_outputs`."""

from typing import NamedTuple


class Writes(NamedTuple):
    """Files that a command writes; all of them are known before it starts."""

    command: str
    option: str  # Names them.
    endings: tuple[str, ...]  # Of what is written, behind the option's value.
    reads: str | None  # An option that names a file to read.
    changes: dict[str, object] = {}


RUN = (
    "/albert_config.json",
    "/dev_outputs.npz",
    "/eval_results.txt",
    "/learning_curves.png",
    "/metrics.jsonl",
    "/null_odds.json",
    "/predict_results.txt",
    "/run_card.md",
    "/scores.json",
    "/scores.md",
    "/test_results.tsv",
    "/RTE.tsv",
)
WRITES = (
    Writes(
        "train_wordpiece",
        "output_prefix",
        (".txt", ".normalization.json"),
        "input_file",
    ),
    Writes(
        "train_sentencepiece",
        "output_prefix",
        (".model", ".vocab", ".normalization.json"),
        "input_file",
    ),
    Writes("split_sentences", "output_file", ("",), "input_file"),
    Writes("extract_passages", "output_file", ("",), "squad_file"),
    Writes("make_word_embeddings", "output_file", ("",), "input_file"),
    Writes(
        "create_finetuning_data", "output_file", ("", ".json"), "input_file"
    ),
    Writes(
        "create_pretraining_data",
        "output_file",
        ("", ".manifest.json", ".card.md", ".card.png"),
        "input_file",
    ),
    Writes(
        "create_pretraining_data",
        "output_file",
        ("-00001-of-00002", "-00000-of-00002.card.md"),
        "spm_model_file",
        {"num_shards": 2},
    ),
    Writes("predict", "output_file", ("",), "input_file"),
    Writes(
        "convert_checkpoint",
        "to",
        (
            "/config.json",
            "/model.safetensors",
            "/README.md",
            "/spiece.model",
            "/spiece.normalization.json",
            "/tokenizer.json",
            "/tokenizer_config.json",
            "/special_tokens_map.json",
        ),
        "albert_config_file",
    ),
    *(
        Writes(
            "convert_checkpoint",
            "to",
            (".index", ".data-00000-of-00001"),
            "albert_config_file",
            {"format": kind},
        )
        for kind in ("tf1", "tf2")
    ),
    Writes(
        "make_demo_data",
        "output_dir",
        ("/corpus/train.txt", "/glue/CoLA/dev.tsv", "/ABOUT.txt"),
        None,
    ),
    Writes("run_pretraining", "output_dir", RUN, "albert_config_file"),
    Writes("run_classifier", "output_dir", RUN, "albert_config_file"),
    Writes(
        "run_classifier",
        "output_dir",
        ("/scores.md", "/RTE.tsv"),
        "albert_config_file",
        {"num_runs": 2},
    ),
    Writes("run_squad", "output_dir", RUN, "train_file"),
    Writes("run_race", "output_dir", RUN, "albert_config_file"),
    Writes("run_embeddings", "output_dir", RUN, "train_file"),
    Writes("run_tagger", "output_dir", RUN, "albert_config_file"),
    Writes("distill", "output_dir", RUN, "train_file"),
    Writes("run_glue", "output_dir", ("/glue_table.md",), "vocab_file"),
    Writes("run_glue", "submission_file", ("",), "vocab_file"),
    Writes("ensemble", "output_dir", ("/ensemble.json", *RUN[1:]), None),
)
