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
# every review three times in the text; SHORT_STEPS=1500 first trains so many
# steps on masked words in sequences of 16. Attention finds out there which words
# are neighbours after 2 million tokens, in sequences of 64 after 9 million. Each
# of these needs an OUTPUT of its own.
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

# write RECORDS PASSES LENGTH PREDICTIONS OBJECTIVE: of train.txt and dev.txt.
write() {
    for part in "train:$2" dev:1; do
        split=${part%:*}
        [ -e "$output/$split.$1.tfrecord.manifest.json" ] ||
            "$python" -m data_prep.create_pretraining_data \
                --input_file="$output/$split.txt" \
                --output_file="$output/$split.$1.tfrecord" \
                --spm_model_file="$data/vocab/30k-clean.model" \
                --max_seq_length="$3" --max_predictions_per_seq="$4" \
                --dupe_factor="${part#*:}" --sentence_objective="$5"
    done
}

# train RECORDS RUN [flags]
train() {
    input=$1
    run=$2
    shift 2
    "$python" -m albert_tf.run_pretraining \
        --flagfile=configs/pretraining/small_real_text.flags \
        --input_file="$output/train.$input.tfrecord" \
        --eval_input_file="$output/dev.$input.tfrecord" \
        --spm_model_file="$data/vocab/30k-clean.model" \
        --output_dir="$output/$run" \
        "$@"
}

if [ "${SHORT_STEPS:-0}" -gt 0 ]; then
    write short 1 16 3 sop
    # The first stage ends in the middle of its work: a constant rate.
    train short short --max_seq_length=16 --max_predictions_per_seq=3 \
        --train_batch_size=128 --num_train_steps="$SHORT_STEPS" --poly_power=0 \
        --sentence_objective=none
    set -- --init_checkpoint="$output/short" --num_warmup_steps=200 "$@"
    [ "$objective" = none ] || set -- --new_weights=cls/seq_relationship "$@"
fi
write "$records" "${PASSES:-3}" 64 10 "$records"
train "$records" "$objective" --sentence_objective="$objective" "$@"
