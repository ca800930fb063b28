"""Options that do not fit together: a command line, and what is said of it."""

import pytest

from albert_tf.common import options
from albert_tf.finetuning import finetuning_options
from albert_tf.model import model_options
from albert_tf.serving import convert_options, export_options, source_options
from albert_tf.training import pretraining_options, training_options
from data_prep import inspect_records
from data_prep.writer import corpus, writer_options
from tests.conftest import refused

# The options of each, and those that must be given.
CLASSES = {
    "init": (model_options.InitOptions, ""),
    "optimizer": (model_options.OptimizerOptions, ""),
    "trainer": (training_options.TrainerOptions, ""),
    "devices": (training_options.DistributionOptions, ""),
    "recipe": (pretraining_options.RecipeOptions, ""),
    "pretrain": (
        pretraining_options.PretrainingOptions,
        "--albert_config_file=c --input_file=r --output_dir=o --vocab_file=v",
    ),
    "finetune": (
        finetuning_options.FinetuningOptions,
        "--albert_config_file=c --output_dir=o --vocab_file=v --do_train",
    ),
    "teach": (finetuning_options.TeacherOptions, ""),
    "source": (source_options.SourceOptions, ""),
    "export": (export_options.ExportOptions, "--run_dir=r --export_dir=e"),
    "convert": (convert_options.ConvertOptions, "--from=a --to=b"),
    "inspect": (inspect_records.InspectOptions, "--input_file=r"),
    "corpus": (corpus.CorpusOptions, "--input_file=t"),
    "write": (
        writer_options.CreatePretrainingDataOptions,
        "--input_file=t --output_file=r --vocab_file=v",
    ),
}
# Behind each command line what the message has; nothing where it is right.
CASES = """
init --init_from_group0
    `init_from_group0=True` is only used with `init_checkpoint`, which is not
init --init_shallower
    `init_shallower=True` is only used with `init_checkpoint`
init --new_weights=cls
    `new_weights=cls` is only used with `init_checkpoint`
init --init_checkpoint=x --init_from_group0 --init_shallower
    contradict each other
init --init_checkpoint=
    `init_checkpoint` is empty
optimizer --beta_2=0
    `beta_2=0
optimizer --beta_2=1
    `beta_2=1

trainer --profile_steps=10,11

trainer --profile_steps=20,10
    `profile_steps=20,10` is not two steps
trainer --profile_steps=10,10
    `profile_steps=10,10` is not two steps
trainer --profile_steps=some
    is not two steps
trainer --profile_steps=5,²
    is not two steps
devices --use_tpu
    needs `tpu_name`
devices --distribution_strategy=tpu
    needs `tpu_name`
devices --worker_hosts=a,b
    not a list of different host:port
devices --worker_hosts=a:1,a:1
    not a list of different host:port
devices --worker_hosts=a:1,,b:2
    not a list of different host:port
devices --worker_hosts=a:1,b:2
    is only used with `distribution_strategy=multi_worker_mirrored`
devices --task_index=1
    not the number of one of the 0
devices --worker_hosts=a:1,b:2 --distribution_strategy=multi_worker_mirrored
    --task_index=2
    not the number of one of the 2

recipe --num_train_steps=5 --num_warmup_steps=6
    `num_warmup_steps=6` is more than the 5 steps of the run
recipe --init_schedule=continue
    `init_schedule=continue` is only used with `init_checkpoint`
recipe --word_embeddings_file=
    `word_embeddings_file` is empty
recipe --word_embeddings_file=words.npy --init_checkpoint=a
    `word_embeddings_file=words.npy` does not go with
recipe --sentence_objective=discourse
    `markers_file` goes with `sentence_objective=discourse`
recipe --markers_file=m.txt
    `markers_file=m.txt` goes with `sentence_objective=discourse`
recipe --mask_levels=basic --objective=plm
    `mask_levels=basic` is only used with `objective=mlm or rtd`
recipe --generator_size=0.5
    `generator_size=0.5` is only used with `objective=rtd`
recipe --generator_sharing=none
    `generator_sharing=none` is only used with `objective=rtd`
recipe --replaced_token_factor=2
    `replaced_token_factor=2.0` is only used with `objective=rtd`
recipe --objective=spans --masked_lm_factor=2
    `masked_lm_factor=2.0` is only used with `objective=mlm, rtd or plm`
recipe --objective=rtd --generator_sharing=all --generator_size=0.5
    `generator_size=0.5` does not fit `generator_sharing=all`
recipe --task_stages=1:125000,1
    begins 1 after 125000 steps, but the run has
recipe --num_train_steps=9 --num_warmup_steps=0
    --mask_levels=basic:7,phrase:2,entity
    begins entity after 9 steps, but the run has `num_train_steps=9`

pretrain --init_checkpoint=a --max_minutes=5

pretrain --init_checkpoint=a --max_minutes=5 --init_schedule=continue
    `max_minutes` is not for `init_schedule=continue`
pretrain --follow_checkpoints --do_eval --nodo_train

pretrain --follow_checkpoints --do_eval
    `follow_checkpoints=True` is only used with `do_train=False`
pretrain --follow_checkpoints
    `follow_checkpoints=True` is only used with `do_eval`
pretrain --objective=spans --sentence_objective=none --masked_lm_budget=301

pretrain --objective=spans --sentence_objective=none --masked_lm_budget=302
    are 101 spans; ... for 100

finetune --early_stopping_evaluations=2
    `early_stopping_evaluations=2` is only used with `do_eval`
finetune --learning_rate=1e-4 --encoder_learning_rate=2e-4
    `encoder_learning_rate=0.0002` is more than `learning_rate=0.0001
finetune --new_head
    `new_head=True` is only used with `init_checkpoint`
finetune --exit_heads
    `exit_heads=True` is only used with `exit_layers`
finetune --nodo_train
    Set at least one
teach --temperature=2
    `temperature=2.0` is only used with `teacher`
teach --teacher_weight=0.5
    `teacher_weight=0.5` is only used with `teacher`

source
    `run_dir` and `init_checkpoint`: exactly one
source --run_dir=r --init_checkpoint=c
    exactly one of the two
source --init_checkpoint=c
    `init_checkpoint=c` needs `task`: ... race
source --run_dir=r --task=race
    `task=race` is given with `run_dir`
source --run_dir=r --pairs
    `pairs=True` is only used with `init_checkpoint`
source --init_checkpoint=c --task=squad --pairs
    `pairs=True` is only used with `task=classifier or regression`
source --init_checkpoint=c --task=squad --labels=a,b
    `labels=a,b` is only used with `task=classifier`
source --init_checkpoint=c --task=regression --num_labels=2
    `num_labels=2` is only used with `task=classifier`
source --run_dir=r --albert_config_file=a
    `albert_config_file=a` is only used with `init_checkpoint`
source --init_checkpoint=c --task=encoder --task_module=m
    `task_module=m` is only used with `run_dir`
source --init_checkpoint=c --task=encoder --checkpoint=m
    `checkpoint=m` is only used with `run_dir`
source --run_dir=r --task=poem
    `task=poem`
source --run_dir=r --num_options=27
    `num_options=27` is above 26
export --entropy=0.5
    `entropy=0.5` is only used with `adaptive`
convert --format=tf2 --text_pooling=cls
    `text_pooling=cls` is only used with `format=sentence_transformers`

inspect --sentence_objective=sop
    `sentence_objective=sop` is only used with `objective=mlm or rtd`
inspect --markers_file=m.txt
    `markers_file=m.txt` is only used with `objective=mlm or rtd`
inspect --objective=plm --vocab_file=v --sentence_objective=sop
    `sentence_objective=sop` is only used with
corpus --language=de
    `language=de` is only used with `split_sentences`
corpus --split_sentences
    `split_sentences=True` is only used with `input_format=
corpus --json_field=body
    `json_field=body` is only used with `input_format=jsonl`
corpus --text_column=a
    is only used with `input_format=parquet or arrow`, which
corpus --input_format=arrow --json_field=a
    `json_field=a` is only used with `input_format=jsonl`, which is
corpus --input_format=jsonl --json_field=
    is empty. Name the field that holds
write --input_format=dialogues
    `input_format=dialogues` is only used with `records=passages`
write --phrase_file=x
    `phrase_file=x` is only used with `records=passages`
write --entity_file=x
    `entity_file=x` is only used with `records=passages`
write --cross_documents
    `cross_documents=True` is only used with `records=passages`
write --records=passages --dupe_factor=3
    `dupe_factor=3` is only used with `records=instances`
write --records=passages --max_predictions_per_seq=5
    `max_predictions_per_seq=5` is only used with `records=instances`
write --records=passages --masking_time=training
    `masking_time=training` is only used with `records=instances`
write --records=passages --sentence_objective=nsp
    `sentence_objective=nsp` is only used with `records=instances`
write --masking_time=training --do_permutation
    `do_permutation=True` is only used with `masking_time=writing`
write --dask_scheduler=
    `dask_scheduler=` is empty
write --dask_scheduler=a:1 --num_workers=2
    `num_workers=2` and
write --word_start_rule=marker --word_segmenter=jieba
    `word_start_rule=marker` is only used with `word_segmenter=none`
"""
STAGES = ("", "1", "1,1/1", "1:5,1/0", "1/1:5,1:5,1/1", "1:5,1/100")
LEVELS = (
    *("", "basic:9", "word", "basic,phrase", "basic:0,phrase", "basic:9,"),
    *("basic:-1,phrase", "basic:x,phrase", "entity,basic:9"),
)


def read_cases():
    found = []
    for line in CASES.replace("\n    --", " --").splitlines():
        if line.startswith("    "):
            found[-1][1].extend(line.strip().split(" ... "))
        elif line:
            found.append((line.split(), []))
    for value in STAGES:
        flags = ["--sentence_objective=sop,distance", f"--task_stages={value}"]
        says = [f"`task_stages={value}` does not say how often each of"]
        found.append((["recipe", *flags], says))
    for value in LEVELS:
        says = [f"`mask_levels={value}` is not some of"]
        found.append((["recipe", f"--mask_levels={value}"], says))
    return found


@pytest.mark.parametrize(
    ("words", "says"), read_cases(), ids=lambda x: " ".join(x)
)
def test_options_that_do_not_fit_are_refused(words, says):
    name, *flags = words
    options_class, needed = CLASSES[name]
    flags = [*needed.split(), *flags]
    if not says:
        options.parse(options_class, flags)
        return
    with refused() as error:
        options.parse(options_class, flags)
    assert all(part in str(error.value) for part in says), error.value
