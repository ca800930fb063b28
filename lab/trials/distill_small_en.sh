#!/usr/bin/env bash
# Make the model albert_small_en again: docs/distillation.md.
#
# Usage: distill_small_en.sh DATA MPNET MINILM OUTPUT
#   DATA     a folder with en/, corpora/, squad/ and sentences/: lab/trials/small_en_texts.py
#   MPNET    the Hugging Face folder of all-mpnet-base-v2
#   MINILM   that of all-MiniLM-L6-v2
#   OUTPUT   where all is written; started again, it goes on there
set -euo pipefail

data=$1 mpnet=$2 minilm=$3 output=$4
python=${PYTHON:-.venv/bin/python}
small=configs/checkpoints/albert_small_en
texts=$output/sentences.txt start=$output/start
vectors=$output/mpnet.npy,$output/minilm.npy
mkdir -p "$output"
[ -e "$texts" ] || "$python" -m lab.trials.small_en_texts "$data" "$texts"
[ -e "$output/minilm.npy" ] ||
    "$python" -m lab.trials.teacher_vectors "$texts" "$minilm" "$output/minilm.npy"
[ -e "$output/mpnet.npy" ] ||
    "$python" -m lab.trials.teacher_vectors "$texts" "$mpnet" "$output/mpnet.npy"
[ -e "$start/model.safetensors" ] ||
    "$python" -m lab.trials.static_start "$texts" "$mpnet,$minilm" \
        "$small/albert_config.json" "$small/vocab.txt" "$start" "$vectors"
"$python" -m albert_tf.distill \
    --flagfile=configs/distillation/vectors.flags --init_checkpoint="$start" \
    --teacher_vectors="$vectors" --teacher_dimensions=384 --train_file="$texts" \
    --vocab_file="$start/vocab.txt" --projection_size=384 --train_step=12000 \
    --max_seq_length=96 --warmup_proportion=0.05 --weight_precision=int8 \
    --precision=bfloat16 --save_checkpoints_steps=500 --nodo_eval \
    --output_dir="$output/run" --cached_dir="$output"
"$python" -m albert_tf.convert_checkpoint --from="$output/run" \
    --to="$output/albert_small_en" --format=int8
