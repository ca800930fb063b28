#!/usr/bin/env bash
# Make the model albert_small_en again: docs/distillation.md.
#
# Usage: distill_small_en.sh TEXTS TEACHER STS_B OUTPUT
#   TEXTS    a folder with storybooks.txt, wikipedia_short.txt and
#            movie_reviews.txt, one sentence a line
#   TEACHER  the Hugging Face folder of all-MiniLM-L6-v2
#   STS_B    the folder of the GLUE task with dev.tsv
#   OUTPUT   where all is written; started again, it goes on there
set -euo pipefail

texts=$1 teacher=$2 sts_b=$3 output=$4
python=${PYTHON:-.venv/bin/python}
mkdir -p "$output"
if [ ! -e "$output/sentences.txt" ]; then
    "$python" - "$texts" "$output/sentences.txt" <<'PYTHON'
import os
import random
import sys

folder, output = sys.argv[1:]
known, chosen = set(), []
for name, most in (
    ("storybooks", 30_000),
    ("wikipedia_short", 60_000),
    ("movie_reviews", 20_000),
):
    found = []
    with open(f"{folder}/{name}.txt", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            text = " ".join(words)
            is_json = text.startswith(("{", "["))
            if 3 <= len(words) <= 40 and text not in known and not is_json:
                known.add(text)
                found.append(text)
    random.Random(1).shuffle(found)
    chosen += found[:most]
random.Random(2).shuffle(chosen)
with open(f"{output}.new", "w", encoding="utf-8") as stream:
    stream.writelines(f"{text}\n" for text in chosen[:61_440])
os.replace(f"{output}.new", output)
PYTHON
fi
awk -F'\t' 'NR == 1 { print "text\ttext_pair\tscore" }
    NR > 1 { print $8 "\t" $9 "\t" $10 }' "$sts_b/dev.tsv" >"$output/sts_dev.tsv"
"$python" -m albert_tf.distill \
    --flagfile=configs/distillation/vectors.flags \
    --teacher="$teacher" --train_file="$output/sentences.txt" \
    --dev_file="$output/sts_dev.tsv" --max_score=5 \
    --vocab_file=albert_small_en --output_dir="$output/run" --cached_dir="$output"
"$python" -m albert_tf.convert_checkpoint --from="$output/run" \
    --to="$output/albert_small_en" --format=bfloat16
