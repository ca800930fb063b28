#!/bin/sh
# Pretrain a small ALBERT on real text: books and film reviews.
#
#   tools/pretrain_on_real_text.sh DATA OUTPUT
#
# DATA holds vocab/30k-clean.model, corpora/gutenberg.tar.xz (books, hard-wrapped
# plain text) and corpora/movie_reviews.txt.xz (one sentence a line, a blank line
# between documents). Any texts in those two layouts will do. Every fortieth
# document is held out for evaluation. Stopped and started again, it goes on.
set -eu
data=$1
output=$2
python=${PYTHON:-.venv/bin/python}
mkdir -p "$output"

if [ ! -e "$output/train.txt" ]; then
    "$python" -m data_prep.split_sentences \
        --input_file="$data/corpora/gutenberg.tar.xz" \
        --max_document_sentences=200 --output_file="$output/books.txt" \
        --overwrite # Left over where an earlier start was stopped.
    xz -dc "$data/corpora/movie_reviews.txt.xz" >"$output/reviews.txt"
    # Paragraph mode: a record is a document.
    for text in books reviews; do
        cat "$output/$text.txt"
        echo
    done | awk -v RS= -v ORS='\n\n' -v dev="$output/dev.txt" \
        'NR % 40 == 0 { print > dev; next } { print }' >"$output/train.partial"
    mv "$output/train.partial" "$output/train.txt"
fi

for split in train dev; do
    if [ ! -e "$output/$split.tfrecord.manifest.json" ]; then
        "$python" -m data_prep.create_pretraining_data \
            --input_file="$output/$split.txt" \
            --output_file="$output/$split.tfrecord" \
            --spm_model_file="$data/vocab/30k-clean.model" \
            --max_seq_length=128 --max_predictions_per_seq=20 --dupe_factor=1
    fi
done

"$python" -m albert_tf.run_pretraining \
    --flagfile=configs/pretraining/small_real_text.flags \
    --input_file="$output/train.tfrecord" \
    --eval_input_file="$output/dev.tfrecord" \
    --spm_model_file="$data/vocab/30k-clean.model" \
    --output_dir="$output/run"
