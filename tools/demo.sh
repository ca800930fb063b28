#!/bin/sh
# The whole pipeline on generated text: vocabulary, TFRecords, pretraining,
# finetuning, SavedModels, answers. `make demo` runs it.
#
#   tools/demo.sh PYTHON OUTPUT SEED
#
# After an interruption it continues with the same OUTPUT and SEED.
set -eu
python=$1
output=$2
seed=$3
export TF_CPP_MIN_LOG_LEVEL=3 # No TensorFlow messages such as "no GPU".
started=$(date +%s)

step() {
    echo
    echo "== $(($(date +%s) - started)) s: $*"
}

step "Generate stories, and a GLUE task about them -> $output/data"
"$python" -m data_prep.make_demo_data \
    --output_dir="$output/data" --random_seed="$seed"
head -n 4 "$output/data/corpus/train.txt"

step "Train a vocabulary -> $output/tiny.model"
"$python" -m data_prep.train_sentencepiece --vocab_size=400 \
    --input_file="$output/data/corpus/train.txt,$output/data/corpus/glossary.txt" \
    --output_prefix="$output/tiny"

step "Write pretraining TFRecords -> $output/*.tfrecord"
for split in train dev; do
    "$python" -m data_prep.create_pretraining_data \
        --flagfile=configs/pretraining/tiny_data.flags \
        --spm_model_file="$output/tiny.model" \
        --input_file="$output/data/corpus/$split.txt" \
        --output_file="$output/$split.tfrecord" --random_seed="$seed"
done

step "Pretrain a tiny ALBERT -> $output/pretrained"
"$python" -m albert_tf.run_pretraining \
    --flagfile=configs/pretraining/tiny.flags \
    --spm_model_file="$output/tiny.model" \
    --input_file="$output/train.tfrecord" \
    --eval_input_file="$output/dev.tfrecord" \
    --output_dir="$output/pretrained" --seed="$seed"

step "Finetune it on CoLA: is a sentence acceptable? -> $output/cola"
"$python" -m albert_tf.run_classifier \
    --flagfile=configs/glue/cola_tiny.flags \
    --data_dir="$output/data/glue" \
    --spm_model_file="$output/tiny.model" \
    --init_checkpoint="$output/pretrained" \
    --output_dir="$output/cola" --seed="$seed"

step "Export both as SavedModels -> $output/saved_models"
for run in pretrained cola; do
    "$python" -m albert_tf.export --run_dir="$output/$run" \
        --export_dir="$output/saved_models/$run" --overwrite
done

step "Ask them, in a process with only tensorflow and tensorflow-text"
"$python" tools/ask_saved_models.py "$output/saved_models"

step "Real English: albert_small_en, which comes with the package, compares sentences"
"$python" -m albert_tf.export --task=embedding --init_checkpoint=albert_small_en \
    --max_seq_length=64 --export_dir="$output/saved_models/vectors" --overwrite
for text in "Children are playing in the snow." "The weather will be cold." \
    "The company lost money last year."; do
    echo "{\"text\": \"Some kids build a snowman in the garden.\", \"text_pair\": \"$text\"}"
done | "$python" -m albert_tf.predict \
    --saved_model="$output/saved_models/vectors" --signature=compare

step "Done. Run cards: $output/pretrained/run_card.md, $output/cola/run_card.md"
