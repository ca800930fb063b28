#!/bin/sh
# The whole pipeline on generated text: vocabulary, TFRecords, pretraining,
# finetuning, SavedModels, answers. `make demo` runs it.
#
#   tools/demo.sh PYTHON OUTPUT SEED
#
# After an interruption it continues with the same OUTPUT and SEED.
set -eu
if [ $# != 3 ] || [ ! -e tools/demo.sh ]; then
    echo "Type: make demo, in the project's folder. Or there:" \
        "tools/demo.sh .venv/bin/python demo_output 12345" >&2
    exit 2
fi
python=$1
output=$2
seed=$3
export TF_CPP_MIN_LOG_LEVEL=3 # No TensorFlow messages such as "no GPU".
started=$(date +%s)
beside= # A process beside the present step.

step() {
    now="$*"
    echo
    echo "== $(($(date +%s) - started)) s: $now"
}

leave() {
    status=$?
    trap - EXIT
    [ -z "$beside" ] || kill "$beside" 2>/dev/null || true
    [ "$status" = 0 ] || echo "The demo stopped at: $now. When the cause is gone," \
        "type the same again to continue. To begin anew, with another seed or" \
        "version: make demo OUTPUT=another_folder" >&2
    exit "$status"
}
trap leave EXIT
trap 'exit 130' INT TERM

# Usage: export_beside NAME OPTION...; then join_export NAME.
export_beside() {
    name=$1
    shift
    "$python" -m albert_tf.export --export_dir="$output/saved_models/$name" \
        --overwrite "$@" >"$output/export_$name.log" 2>&1 &
    beside=$!
}

join_export() {
    wait "$beside" || { cat "$output/export_$1.log" >&2 && exit 1; }
    beside=
}

step "Two models in about two minutes on two idle cores: 10 s for data, one minute
   of pretraining, half a minute of finetuning and export, 10 s for answers. All
   goes to $output"
mkdir -p "$output"
export_beside sentences --task=embedding --init_checkpoint=albert_small_en \
    --max_seq_length=64

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
join_export sentences

step "Pretrain a tiny ALBERT -> $output/pretrained"
"$python" -m albert_tf.run_pretraining \
    --flagfile=configs/pretraining/tiny.flags \
    --spm_model_file="$output/tiny.model" \
    --input_file="$output/train.tfrecord" \
    --eval_input_file="$output/dev.tfrecord" \
    --output_dir="$output/pretrained" --seed="$seed"

step "Finetune it on CoLA: is a sentence acceptable? -> $output/cola"
export_beside pretrained --run_dir="$output/pretrained"
"$python" -m albert_tf.run_classifier \
    --flagfile=configs/glue/cola_tiny.flags \
    --data_dir="$output/data/glue" \
    --spm_model_file="$output/tiny.model" \
    --init_checkpoint="$output/pretrained" \
    --output_dir="$output/cola" --seed="$seed"
join_export pretrained

step "Export it, too -> $output/saved_models"
export_beside cola --run_dir="$output/cola"
join_export cola

step "Ask them, and albert_small_en, in a process with only tensorflow and" \
    "tensorflow-text"
"$python" tools/ask_saved_models.py "$output/saved_models" tools/sentences.txt

step "Done. Run cards: $output/pretrained/run_card.md, $output/cola/run_card.md"
