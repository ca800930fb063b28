# The stages that pretrain_on_real_text.sh and pretrain_language.sh share. They read
# this file after they have set python, output and vocabulary (a SentencePiece model).

# begin: makes OUTPUT, unless it holds files of something else.
begin() {
    mark=$output/pretraining_stages
    if [ -n "$(ls -A "$output" 2>/dev/null)" ] && [ ! -e "$mark" ]; then
        echo "OUTPUT=$output holds files of something else. Name a new folder." >&2
        exit 2
    fi
    mkdir -p "$output"
    : >"$mark"
}

# write NAME PASSES LENGTH PREDICTIONS [flags]: records of train.txt and dev.txt, if
# they are not there yet.
write() {
    name=$1 passes=$2 length=$3 predictions=$4
    shift 4
    for part in "train:$passes" dev:1; do
        split=${part%:*}
        [ -e "$output/$split.$name.tfrecord.manifest.json" ] ||
            "$python" -m data_prep.create_pretraining_data \
                --input_file="$output/$split.txt" \
                --output_file="$output/$split.$name.tfrecord" \
                --spm_model_file="$vocabulary" \
                --max_seq_length="$length" --max_predictions_per_seq="$predictions" \
                --dupe_factor="${part#*:}" "$@"
    done
}

# train RECORDS RUN [flags]
train() {
    input=$1 run=$2
    shift 2
    "$python" -m albert_tf.run_pretraining \
        --flagfile=configs/pretraining/small_real_text.flags \
        --input_file="$output/train.$input.tfrecord" \
        --eval_input_file="$output/dev.$input.tfrecord" \
        --spm_model_file="$vocabulary" \
        --output_dir="$output/$run" "$@"
}
