#!/bin/sh
# Pretrain a small ALBERT on real text: books and film reviews.
#
#   lab/trials/pretrain_on_real_text.sh DATA OUTPUT [sop|nsp|none [flags]]
#
# DATA holds vocab/30k-clean.model, corpora/gutenberg.tar.xz (books, hard-wrapped
# plain text) and corpora/movie_reviews.txt.xz (one sentence a line, a blank line
# between documents). Any texts in these two formats work. Every fortieth document is
# held out for evaluation. After an interruption the same command continues.
#
# The third argument is the sentence objective: order (sop, the default), next
# sentence (nsp), or none, which trains on the records of sop. Each has its own
# folder below OUTPUT. Further flags are passed to run_pretraining.
#
# Environment: PASSES=4 makes four passes over the text instead of three, each
# with other segments and masks. REVIEWS=3 repeats every review three times.
# SHORT_STEPS=1500 first trains that many steps on masked words in sequences of
# 16; the model learns attention to neighbouring words there after 2 million
# tokens, in sequences of 64 after 9 million. Use a new OUTPUT for each setting.
set -eu
data=$1
output=$2
objective=${3:-sop}
shift $(($# > 3 ? 3 : $#))
python=${PYTHON:-.venv/bin/python}
records=$objective
[ "$objective" != none ] || records=sop
vocabulary=$data/vocab/30k-clean.model
. "$(dirname "$0")/pretraining_stages.sh"
begin

if [ ! -e "$output/train.txt" ]; then
    "$python" -m data_prep.split_sentences \
        --input_file="$data/corpora/gutenberg.tar.xz" \
        --max_document_sentences=200 --output_file="$output/books.txt" \
        --overwrite # Left by an interrupted start.
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

if [ "${SHORT_STEPS:-0}" -gt 0 ]; then
    write short 1 16 3 --sentence_objective=sop
    # A constant learning rate, because training continues in the second stage.
    train short short --max_seq_length=16 --max_predictions_per_seq=3 \
        --train_batch_size=128 --num_train_steps="$SHORT_STEPS" --poly_power=0 \
        --sentence_objective=none
    set -- --init_checkpoint="$output/short" --num_warmup_steps=200 "$@"
    [ "$objective" = none ] || set -- --new_weights=cls/seq_relationship "$@"
fi
write "$records" "${PASSES:-3}" 64 10 --sentence_objective="$records"
train "$records" "$objective" --sentence_objective="$objective" "$@"
