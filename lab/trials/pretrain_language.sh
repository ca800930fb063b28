#!/bin/sh
# Pretrain and finetune a small ALBERT in German, Chinese or Japanese.
#
#   lab/trials/pretrain_language.sh LANGUAGE DATA OUTPUT [flags]
#
# LANGUAGE is de, zh or ja. DATA holds de/wikipedia_de.txt.xz,
# zh-more/wikipedia_hans.txt.xz and ja/aozora.txt.xz (one paragraph per line, an
# empty line between documents) and the sets of lab/trials/language_tasks.py. Every
# fortieth document is held out for evaluation. Further flags are passed to
# run_pretraining; it stops after 30 minutes. After an interruption the same command
# continues. Set PYTHONPATH=. or install the package.
#
# Results: OUTPUT/run/metrics and card (pretraining), OUTPUT/random/scores.md and
# OUTPUT/pretrained/scores.md (the same finetuning from random weights and from the
# pretrained ones, three seeds each).
#
# Finetuning corrects the bias of AdamW's moments: without it, all three runs from random
# weights in German and one in Chinese learned nothing.
#
# Environment: VOCAB_SIZE (8000), LEARNING_RATE of finetuning (3e-4).
set -eu
language=$1
data=$2
output=$3
shift 3
python=${PYTHON:-.venv/bin/python}
vocab_size=${VOCAB_SIZE:-8000}
case $language in
de) text=de/wikipedia_de.txt.xz task=germeval2018 segmenter=none ;;
zh) text=zh-more/wikipedia_hans.txt.xz task=ocnli segmenter=jieba ;;
ja) text=ja/aozora.txt.xz task=jnli segmenter=mecab ;;
*) echo "LANGUAGE is de, zh or ja, not $language" >&2 && exit 2 ;;
esac
vocabulary=$output/vocab.model
. "$(dirname "$0")/pretraining_stages.sh"
begin

if [ ! -e "$output/train.txt" ]; then
    # A paragraph is one line there; split_sentences expects empty lines between
    # paragraphs. So each document becomes a file.
    rm -rf "$output/documents"
    mkdir "$output/documents"
    xz -dc "$data/$text" >"$output/text.txt"
    awk -v RS= -v ORS='\n' -v to="$output/documents" '
        { gsub(/\n/, "\n\n"); file = sprintf("%s/%06d.txt", to, NR)
          print > file; close(file) }
    ' "$output/text.txt"
    "$python" -m data_prep.split_sentences --language="$language" \
        --input_file="$output/documents/*.txt" \
        --output_file="$output/sentences.txt" --overwrite
    awk -v RS= -v ORS='\n\n' -v dev="$output/dev.txt" '
        NR % 40 == 0 { print > dev; next } { print }
    ' "$output/sentences.txt" >"$output/train.partial"
    mv "$output/train.partial" "$output/train.txt"
fi
[ -e "$output/vocab.model" ] ||
    "$python" -m data_prep.train_sentencepiece --input_file="$output/train.txt" \
        --output_prefix="$output/vocab" --vocab_size="$vocab_size"
sed "s/\"vocab_size\": [0-9]*/\"vocab_size\": $vocab_size/" \
    configs/models/albert_small.json >"$output/albert_config.json"

# Sequences of 16 first: the model learns attention to neighbouring tokens sooner.
# The learning rate is constant there, because the second stage goes on with it. With
# 1e-3 after a warm-up of 100 steps the model did not use the context of words.
write short 1 16 3 --word_segmenter="$segmenter"
train short short --albert_config_file="$output/albert_config.json" \
    --max_seq_length=16 --max_predictions_per_seq=3 \
    --train_batch_size=128 --num_train_steps=1500 --num_warmup_steps=600 \
    --learning_rate=5e-4 --poly_power=0 --sentence_objective=none
write long 3 64 10 --word_segmenter="$segmenter"
train long run --albert_config_file="$output/albert_config.json" \
    --init_checkpoint="$output/short" --num_warmup_steps=600 --learning_rate=5e-4 \
    --new_weights=cls/seq_relationship --max_minutes=25 "$@"

"$python" -m lab.trials.language_tasks \
    --data_dir="$data" --output_dir="$output/tasks"
# finetune NAME [flags]
finetune() {
    name=$1
    shift
    "$python" -m albert_tf.run_classifier --task_module=lab.trials.language_tasks \
        --task_name="$task" --data_dir="$output/tasks" \
        --albert_config_file="$output/albert_config.json" \
        --spm_model_file="$output/vocab.model" --output_dir="$output/$name" \
        --max_seq_length=64 --train_batch_size=32 --num_train_epochs=3 \
        --learning_rate="${LEARNING_RATE:-3e-4}" --bias_correction --num_runs=3 \
        --do_train --do_eval "$@"
}
finetune random
finetune pretrained --init_checkpoint="$output/run"
