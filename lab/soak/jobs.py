"""The commands that the soak test kills, and their small inputs."""

import dataclasses
from collections.abc import Mapping
from typing import Any

CONFIG = {
    "vocab_size": 400,
    "embedding_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}


@dataclasses.dataclass(frozen=True)
class Command:
    """A script and its options; paths are relative to the job's folder."""

    module: str
    options: Mapping[str, Any]
    workers: int = 1


@dataclasses.dataclass(frozen=True)
class Job:
    """A command that is killed and started again."""

    name: str
    command: Command
    begins: str = "out/*"
    question: Command | None = None


_VOCABULARY = {"spm_model_file": "inputs/tiny.model"}
_WRITER = {
    "input_file": "inputs/data/corpus/train.txt",
    "output_file": "out/records.tfrecord",
    **_VOCABULARY,
    "max_seq_length": 48,
    "max_predictions_per_seq": 7,
    "dupe_factor": 5,
}
_PRETRAINING = {
    "albert_config_file": "inputs/config.json",
    "input_file": "inputs/records/train.tfrecord",
    "eval_input_file": "inputs/records/dev.tfrecord",
    **_VOCABULARY,
    "output_dir": "out",
    "max_seq_length": 48,
    "max_predictions_per_seq": 7,
    "train_batch_size": 8,
    "eval_batch_size": 8,
    "max_eval_steps": 2,
    "do_eval": True,
    "num_train_steps": 10,
    "num_warmup_steps": 4,
    "learning_rate": 0.001,
    "iterations_per_loop": 1,
    "save_checkpoints_steps": 2,
    "keep_checkpoint_max": 3,
}
_FINETUNING = {
    "task_name": "cola",
    "data_dir": "inputs/data/glue",
    "albert_config_file": "inputs/config.json",
    **_VOCABULARY,
    "init_checkpoint": "inputs/pretrained",
    "output_dir": "out",
    "max_seq_length": 48,
    "train_batch_size": 8,
    "train_step": 10,
    "warmup_step": 4,
    "learning_rate": 0.001,
    "iterations_per_loop": 1,
    "save_checkpoints_steps": 2,
    "keep_checkpoint_max": 3,
    "do_train": True,
    "do_eval": True,
    "do_predict": True,
}

# The inputs of all jobs, made once in this order; MODELS only for jobs with
# TensorFlow.
TEXTS = (
    Command(
        "data_prep.make_demo_data",
        {"output_dir": "inputs/data", "num_task_examples": 120},
    ),
    Command(
        "data_prep.train_sentencepiece",
        {
            "input_file": "inputs/data/corpus/train.txt,"
            "inputs/data/corpus/glossary.txt",
            "output_prefix": "inputs/tiny",
            "vocab_size": 400,
            "overwrite": True,
        },
    ),
    *(
        Command(
            "data_prep.create_pretraining_data",
            {
                **_WRITER,
                "input_file": "inputs/data/corpus/dev.txt",
                "output_file": f"inputs/{name}.tfrecord",
                "dupe_factor": 1,
                **options,
            },
        )
        for name, options in {
            "records/train": {},
            "records/dev": {"random_seed": 7},
            "records/unmasked": {"masking_time": "training"},
        }.items()
    ),
)
MODELS = (
    Command(
        "albert_tf.run_pretraining",
        {
            **_PRETRAINING,
            "output_dir": "inputs/pretrained",
            "save_checkpoints_steps": 10,
        },
    ),
    Command(
        "albert_tf.run_classifier",
        {
            **_FINETUNING,
            "output_dir": "inputs/finetuned",
            "save_checkpoints_steps": 10,
        },
    ),
    Command(
        "albert_tf.export",
        {"run_dir": "inputs/finetuned", "export_dir": "inputs/exported"},
    ),
)


def _writer(name: str, **options: Any) -> Job:
    module = "data_prep.create_pretraining_data"
    return Job(name, Command(module, {**_WRITER, **options}))


def _asking(**options: Any) -> Command:
    return Command(
        "albert_tf.predict",
        {
            "input_file": "inputs/sentences.jsonl",
            "batch_size": 4,
            "overwrite": True,
            **options,
        },
    )


JOBS = (
    _writer("writer", num_workers=1),
    _writer("writer_workers", num_workers=2),
    _writer("writer_shards", num_workers=2, num_shards=6, drop_duplicates=True),
    _writer(
        "writer_gz",
        num_workers=2,
        input_file="inputs/data/corpus/train.txt.gz",
        output_file=",".join(f"out/{i}.tfrecord.gz" for i in "abc"),
    ),
    _writer("writer_unmasked", num_workers=2, masking_time="training"),
    Job(
        "trainer",
        Command(
            "albert_tf.run_pretraining",
            {
                **_PRETRAINING,
                "input_file": "inputs/records/unmasked.tfrecord",
                "eval_input_file": "inputs/records/unmasked.tfrecord",
                "masked_lm_budget": 7,
            },
        ),
        "out/checkpoint",
    ),
    Job(
        "workers",
        Command("albert_tf.run_pretraining", _PRETRAINING, workers=2),
        "out/checkpoint",
    ),
    Job(
        "finetuning",
        Command("albert_tf.run_classifier", _FINETUNING),
        "out/checkpoint",
    ),
    Job(
        "export",
        Command(
            "albert_tf.export",
            {
                "run_dir": "inputs/finetuned",
                "export_dir": "out/exported",
                "overwrite": True,
            },
        ),
        question=_asking(
            saved_model="out/exported", output_file="out/answers.jsonl"
        ),
    ),
    Job(
        "predict",
        _asking(run_dir="inputs/finetuned", output_file="out/answers.jsonl"),
    ),
    Job(
        "predict_saved_model",
        _asking(saved_model="inputs/exported", output_file="out/answers.jsonl"),
    ),
)
