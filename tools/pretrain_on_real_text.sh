#!/bin/sh
# Pretrain a small ALBERT on real text: books and film reviews.
#
#   tools/pretrain_on_real_text.sh DATA OUTPUT [sop|nsp|none [flags]]
#
# DATA holds vocab/30k-clean.model, corpora/gutenberg.tar.xz (books, hard-wrapped
# plain text) and corpora/movie_reviews.txt.xz (one sentence a line, a blank line
# between documents). Any texts in those two layouts will do. Every fortieth
# document is held out for evaluation. Stopped and started again, it goes on.
#
# The third word is what is asked about two segments: their order (sop, the
# default), whether they belong together (nsp), or nothing (none, which trains on
# the records of sop). Each has a folder of its own below OUTPUT. Flags after it
# are for run_pretraining. PASSES=4 in the environment gives four passes over the
# text instead of three, each with other segments and other masks; REVIEWS=3 has
# every review three times in the text. Each of these needs an OUTPUT of its own.
set -eu
data=$1
output=$2
objective=${3:-sop}
shift $(($# > 3 ? 3 : $#))
python=${PYTHON:-.venv/bin/python}
records=$objective
[ "$objective" != none ] || records=sop
mkdir -p "$output"

if [ ! -e "$output/train.txt" ]; then
    "$python" -m data_prep.split_sentences \
        --input_file="$data/corpora/gutenberg.tar.xz" \
        --max_document_sentences=200 --output_file="$output/books.txt" \
        --overwrite # Left over where an earlier start was stopped.
    xz -dc "$data/corpora/movie_reviews.txt.xz" >"$output/reviews.txt"
    # Paragraph mode: a record is a document.
    awk -v RS= -v ORS='\n\n' -v dev="$output/dev.txt" -v times="${REVIEWS:-1}" '
        NR % 40 == 0 { print > dev; next }
        { print }
        times > 1 && FILENAME ~ /reviews.txt$/ { again = again $0 ORS }
        END { while (--times > 0) printf "%s", again }
    ' "$output/books.txt" "$output/reviews.txt" >"$output/train.partial"
    mv "$output/train.partial" "$output/train.txt"
fi

for part in "train:${PASSES:-3}" dev:1; do
    split=${part%:*}
    if [ ! -e "$output/$split.$records.tfrecord.manifest.json" ]; then
        "$python" -m data_prep.create_pretraining_data \
            --input_file="$output/$split.txt" \
            --output_file="$output/$split.$records.tfrecord" \
            --spm_model_file="$data/vocab/30k-clean.model" \
            --max_seq_length=64 --max_predictions_per_seq=10 \
            --dupe_factor="${part#*:}" --sentence_objective="$records"
    fi
done

"$python" -m albert_tf.run_pretraining \
    --flagfile=configs/pretraining/small_real_text.flags \
    --sentence_objective="$objective" \
    --input_file="$output/train.$records.tfrecord" \
    --eval_input_file="$output/dev.$records.tfrecord" \
    --spm_model_file="$data/vocab/30k-clean.model" \
    --output_dir="$output/$objective" \
    "$@"
