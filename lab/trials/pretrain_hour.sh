#!/bin/sh
# From texts to a pretrained model and its measure, with configs/pretraining/hour.flags.
#
#   lab/trials/pretrain_hour.sh DATA OUTPUT [flags]
#
# Preparation before the hour and the measure after it are not counted. DATA is the
# folder of public texts and tasks that lab/measure/README.md names. Further flags are
# passed to run_pretraining. After an interruption the same command continues. Results:
#
#   OUTPUT/run/run_card.md        pretraining: losses, speed, options
#   OUTPUT/measure/measure.md     minimal pairs, held-out text, seven tasks
#
# Environment: PARTS of the measure (lab/measure; with --objective=rtd only cost
# and finetuning); SEED (1) of the training; PYTHON (.venv/bin/python).
set -eu
fail() {
    echo "$1" >&2
    exit 2
}
[ $# -ge 2 ] || fail "Usage: $0 DATA OUTPUT [flags of run_pretraining]"
data=$1
output=$2
shift 2
python=${PYTHON:-.venv/bin/python}
[ -d "$data" ] || fail "DATA=$data is not a folder."
command -v "$python" > /dev/null ||
    fail "PYTHON=$python is no program. Run make setup, in the project's root."
parts=cost,held_out,minimal_pairs,finetuning
case " $* " in
*" --objective=rtd "*) parts=cost,finetuning ;; # Without a head for masked words.
esac
corpus=$output/corpus
vocabulary=$output/vocab.model
words=$output/words.npy
config=albert_hour
for flag; do
    case $flag in
    --albert_config_file=*) config=${flag#*=} ;;
    --init_checkpoint=*) words= ;; # It has word embeddings of its own.
    esac
done
set -- --flagfile=configs/pretraining/hour.flags \
    --input_file="$output/train.tfrecord" \
    --eval_input_file="$output/held_out.tfrecord" \
    --spm_model_file="$vocabulary" --output_dir="$output/run" \
    ${words:+--word_embeddings_file="$words"} --seed="${SEED:-1}" "$@"

# Runs a command with the options of the measure.
measure() {
    "$@" --init_checkpoint="$output/run" --data_dir="$data" \
        --held_out_file="$corpus/held_out.txt" --output_dir="$output/measure" \
        --parts="${PARTS:-$parts}"
}

# Checks the options of a command that runs later: MODULE CLASS OPTIONS.
check() {
    "$python" -c '
import importlib, sys
from albert_tf.common import options
module, name, *words = sys.argv[1:]
options_class = getattr(importlib.import_module(module), name)
sys.exit(options.run_inside(lambda _: None, options_class, words))' "$@"
}

check albert_tf.run_pretraining PretrainingOptions "$@"
measure check lab.measure.evaluate EvaluateOptions
mkdir -p "$output"
[ -e "$corpus/corpus.json" ] ||
    "$python" -m lab.measure.make_corpus --data_dir="$data" \
        --output_dir="$corpus"
[ -e "$vocabulary" ] ||
    "$python" -m data_prep.train_sentencepiece --input_file="$corpus/train.txt" \
        --output_prefix="$output/vocab" --vocab_size=8000
# Two passes, with other segments and masks: an hour sees less.
for part in train:2 held_out:1; do
    split=${part%:*}
    [ -e "$output/$split.tfrecord.manifest.json" ] ||
        "$python" -m data_prep.create_pretraining_data \
            --input_file="$corpus/$split.txt" \
            --output_file="$output/$split.tfrecord" \
            --spm_model_file="$vocabulary" --max_seq_length=64 \
            --masked_lm_prob=0.3 --max_predictions_per_seq=20 \
            --dupe_factor="${part#*:}"
done
[ -z "$words" ] || [ -e "$words" ] ||
    "$python" -m data_prep.make_word_embeddings \
        --input_file="$output/train.tfrecord" \
        --albert_config_file="$config" --output_file="$words"
"$python" -m albert_tf.run_pretraining "$@"
measure "$python" -m lab.measure.evaluate
