"""The commands that the soak test kills, and their small inputs.

Commands are a module and its options. Paths are relative to a job's folder. Of
an option that stands there twice, the last value counts.
"""

import dataclasses

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
class Job:
    """A command that is killed and started again.

    Attributes:
        begins: Pattern of its first output.
        workers: Processes that work together.
        question: A command that uses its result.
    """

    name: str
    command: str
    begins: str = "out/*"
    workers: int = 1
    question: str = ""


_WRITER = """data_prep.create_pretraining_data
  --input_file=inputs/data/corpus/train.txt --output_file=out/records.tfrecord
  --spm_model_file=inputs/tiny.model --max_seq_length=48
  --max_predictions_per_seq=7 --dupe_factor=5"""
_TRAINING = """--albert_config_file=inputs/config.json
  --spm_model_file=inputs/tiny.model --output_dir=out --max_seq_length=48
  --train_batch_size=8 --learning_rate=0.001 --iterations_per_loop=1
  --save_checkpoints_steps=2 --keep_checkpoint_max=3 --do_eval"""
_PRETRAINING = f"""albert_tf.run_pretraining {_TRAINING}
  --input_file=inputs/records/train.tfrecord
  --eval_input_file=inputs/records/dev.tfrecord --max_predictions_per_seq=7
  --eval_batch_size=8 --max_eval_steps=2 --num_train_steps=10
  --num_warmup_steps=4"""
_FINETUNING = f"""albert_tf.run_classifier {_TRAINING} --task_name=cola
  --data_dir=inputs/data/glue --init_checkpoint=inputs/pretrained
  --train_step=10 --warmup_step=4 --do_train --do_predict"""
_PREDICTION = """albert_tf.predict --input_file=inputs/sentences.jsonl
  --output_file=out/answers.jsonl --batch_size=4 --overwrite"""

# The inputs of all jobs, made once in this order; MODELS only for jobs with
# TensorFlow.
STORIES = """data_prep.make_demo_data --output_dir=inputs/data
  --num_task_examples=120"""
_RECORDS = f"""{_WRITER} --input_file=inputs/data/corpus/dev.txt
  --dupe_factor=1"""
TEXTS = (
    """data_prep.train_sentencepiece --output_prefix=inputs/tiny --overwrite
      --input_file=inputs/data/corpus/train.txt,inputs/data/corpus/glossary.txt
      --vocab_size=400""",
    f"{_RECORDS} --output_file=inputs/records/train.tfrecord",
    f"{_RECORDS} --output_file=inputs/records/dev.tfrecord --random_seed=7",
    f"""{_RECORDS} --output_file=inputs/records/unmasked.tfrecord
      --masking_time=training""",
)
MODELS = (
    f"{_PRETRAINING} --output_dir=inputs/pretrained",
    f"{_FINETUNING} --output_dir=inputs/finetuned",
    """albert_tf.export --run_dir=inputs/finetuned
      --export_dir=inputs/exported""",
)

JOBS = (
    Job("writer", f"{_WRITER} --num_workers=1"),
    Job("writer_workers", f"{_WRITER} --num_workers=2"),
    Job(
        "writer_shards",
        f"{_WRITER} --num_workers=2 --num_shards=6 --drop_duplicates",
    ),
    Job(
        "writer_gz",
        f"""{_WRITER} --num_workers=2
          --input_file=inputs/data/corpus/train.txt.gz
          --output_file=out/a.tfrecord.gz,out/b.tfrecord.gz,out/c.tfrecord.gz""",
    ),
    Job(
        "writer_unmasked", f"{_WRITER} --num_workers=2 --masking_time=training"
    ),
    Job(
        "trainer",
        f"""{_PRETRAINING} --input_file=inputs/records/unmasked.tfrecord
          --eval_input_file=inputs/records/unmasked.tfrecord
          --masked_lm_budget=7""",
        "out/checkpoint",
    ),
    Job("workers", _PRETRAINING, "out/checkpoint", workers=2),
    Job("finetuning", _FINETUNING, "out/checkpoint"),
    Job(
        "export",
        """albert_tf.export --run_dir=inputs/finetuned
          --export_dir=out/exported --overwrite""",
        question=f"{_PREDICTION} --saved_model=out/exported",
    ),
    Job("predict", f"{_PREDICTION} --run_dir=inputs/finetuned"),
    Job("predict_saved_model", f"{_PREDICTION} --saved_model=inputs/exported"),
)
