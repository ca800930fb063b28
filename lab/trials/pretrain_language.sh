#!/bin/sh
# Pretrain a small ALBERT in German, Chinese or Japanese for half an hour, and finetune it.
#
#   lab/trials/pretrain_language.sh LANGUAGE DATA OUTPUT [flags]
#
# LANGUAGE is de, zh or ja. DATA holds the texts and sets that are named below: one
# paragraph per line, an empty line between documents. Every fortieth document is held
# out for evaluation. The recipe is configs/pretraining/hour.flags; further flags are
# passed to run_pretraining. After an interruption the same command continues. Set
# PYTHONPATH=. or install the package.
#
# Results: OUTPUT/run/run_card.md (pretraining); OUTPUT/SET/random and OUTPUT/SET/pretrained
# with scores.md and run cards (the same finetuning from random weights and from the
# pretrained ones, three seeds each).
#
# Environment: LEARNING_RATE of finetuning (3e-4), EPOCHS of the taggers (6).
set -eu
language=$1
data=$2
output=$3
shift 3
python=${PYTHON:-.venv/bin/python}
segmenter=none cased=
case $language in
de) text=de/wikipedia_de.txt.xz cased=--do_lower_case=false ;; # Nouns are names' rivals.
zh) text=zh-more/wikipedia_hans.txt.xz segmenter=jieba ;;
ja) text=ja/aozora.txt.xz segmenter=mecab ;;
*) echo "LANGUAGE is de, zh or ja, not $language" >&2 && exit 2 ;;
esac
if [ -n "$(ls -A "$output" 2>/dev/null)" ] && [ ! -e "$output/.language" ]; then
    echo "OUTPUT=$output holds files of something else. Name a new folder." >&2
    exit 2
fi
mkdir -p "$output"
: >"$output/.language"

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
        --output_prefix="$output/vocab" --vocab_size=8000 $cased
for part in train:2 dev:1; do
    split=${part%:*}
    [ -e "$output/$split.tfrecord.manifest.json" ] ||
        "$python" -m data_prep.create_pretraining_data \
            --input_file="$output/$split.txt" \
            --output_file="$output/$split.tfrecord" \
            --spm_model_file="$output/vocab.model" --word_segmenter="$segmenter" \
            --max_seq_length=64 --masked_lm_prob=0.3 --max_predictions_per_seq=20 \
            --dupe_factor="${part#*:}"
done
[ -e "$output/words.npy" ] ||
    "$python" -m data_prep.make_word_embeddings \
        --input_file="$output/train.tfrecord" \
        --albert_config_file=albert_hour --output_file="$output/words.npy"
"$python" -m albert_tf.run_pretraining --flagfile=configs/pretraining/hour.flags \
    --max_minutes=30 --input_file="$output/train.tfrecord" \
    --eval_input_file="$output/dev.tfrecord" --spm_model_file="$output/vocab.model" \
    --word_embeddings_file="$output/words.npy" --output_dir="$output/run" "$@"

# finetune COMMAND SET [flags]: reads OUTPUT/SET/train and dev.
finetune() {
    command=$1 set=$2
    shift 2
    for start in random pretrained; do
        [ "$start" = random ] || set -- "$@" --init_checkpoint="$output/run"
        "$python" -m "albert_tf.$command" --train_file="$output/$set/$train" \
            --dev_file="$output/$set/$dev" --albert_config_file=albert_hour \
            --spm_model_file="$output/vocab.model" --output_dir="$output/$set/$start" \
            --max_seq_length=128 --train_batch_size=32 --bias_correction \
            --learning_rate="${LEARNING_RATE:-3e-4}" --num_runs=3 \
            --do_train --do_eval "$@"
    done
}

# prepare SET TRAIN DEV SUFFIX [filter]: unpacks both files.
prepare() {
    set=$1 train=train.$4 dev=dev.$4
    mkdir -p "$output/$set"
    for pair in "$train:$2" "$dev:$3"; do
        to=$output/$set/${pair%%:*} from=$data/${pair#*:}
        [ -e "$to" ] && continue
        case $from in *.xz) xz -dc "$from" ;; *) cat "$from" ;; esac >"$to.whole"
        sed -E "${5:-}" "$to.whole" >"$to.partial"
        rm "$to.whole"
        mv "$to.partial" "$to"
    done
}
names() {
    finetune run_tagger "$set" --num_train_epochs="${EPOCHS:-6}" "$@"
}

case $language in
de)
    prepare germeval2018 de/germeval2018_train.tsv.xz de/germeval2018_dev.tsv tsv
    finetune run_classifier germeval2018 --noheader --text_columns=1 --label_column=2
    prepare germeval2014 de/germeval2014_ner_train.tsv.xz de/germeval2014_ner_dev.tsv conll
    names --word_column=2 --tag_column=3
    ;;
zh)
    prepare ocnli zh-more/ocnli_train.jsonl.xz zh-more/ocnli_dev.jsonl.xz jsonl \
        '/"label": *"-"/d' # The annotators did not agree.
    finetune run_classifier ocnli --text_columns=sentence1,sentence2 --label_column=label
    prepare weibo zh-more/weibo_ner_train.conll.xz zh-more/weibo_ner_dev.conll conll \
        's/^(.+)[0-9]([ \t])/\1\2/' # Each character has its place in its word.
    names
    prepare peoples_daily zh-more/peoples_daily_ner_train.conll.xz \
        zh-more/peoples_daily_ner_dev.conll conll
    names
    ;;
ja)
    prepare jnli ja/jnli_train.jsonl.xz ja/jnli_dev.jsonl jsonl
    finetune run_classifier jnli --text_columns=sentence1,sentence2 --label_column=label
    prepare wikipedia ja/ner_train.jsonl.xz ja/ner_dev.jsonl jsonl \
        's/"name": "([^"\\]|\\.)*", "span": \[([0-9]+), ([0-9]+)\], "type"/"start": \2, "end": \3, "label"/g; s/"entities"/"spans"/'
    names
    ;;
esac
