"""Options and small files that are refused; see `cases`.

A command, options that replace those that work, `-NAME` for one that is left
out; below it the parts of the message, divided by dots. Between them, behind
<<, may stand what the last file of the first line holds.
"""

import re

from tests.hostile.cases import Case

# Commands with some of their options.
STARTS = {
    "corpus": "create_pretraining_data",
    "parquet": "create_pretraining_data --input_format=parquet",
    "pieces": "create_pretraining_data -spm_model_file",
    "rte": "create_finetuning_data --is_training=true",
    "rows": "run_classifier -task_name -data_dir --text_columns=text "
    "--label_column=label",
    "calibrated": "export --format=onnx --precision=int8",
    "table": "run_classifier -task_name -data_dir --train_file=t",
    "passages": "run_pretraining --records=passages --masked_lm_budget=5",
    **{
        name: f"run_pretraining --objective={name} --sentence_objective=none "
        "--masked_lm_budget=5 -max_predictions_per_seq"
        for name in ("plm", "spans")
    },
}

TABLE = r"""
corpus --input_format=jsonl --input_file={here}/t
    << {"text": []}\n
    line 1 ... text
corpus --input_file={here}/t
    << \ufeff\n<doc id="1" url="x" title="A">\nA\n\nB c.\n</doc>\n
    {here}/t ... split_sentences
corpus --input_file={here}/t
    << \n {"text": "a"
    {here}/t ... =jsonl
corpus --input_file={here}/a.zip
    << PK
    a.zip
parquet --input_file={here}/t.parquet
    <<
    t.parquet
parquet --input_file={here}/t.parquet
    << Ivo slept.\n
    t.parquet
train_sentencepiece --input_file={here}/t
    << \n \n
    --input_file
train_wordpiece --input_file={here}/t
    << \u200b\n
    --input_file
train_sentencepiece --input_file={here}/t
    << \u2585\n
    U+2585
pieces --vocab_file={here}/v.txt
    << [PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n\n\nc\n
    v.txt
pieces --vocab_file={here}/v.txt
    << {"[CLS]": 1}
    v.txt
rte --input_file={here}/train.tsv
    << index\tsentence1\tsentence2\tlabel\n0\ta\tb\tperhaps\n
    line 2 ... perhaps
rte --task_name=nothing --input_file={here}/train.tsv
    << index\tsentence1\tsentence2\tlabel\n
    --task_name=nothing

rows --train_file={here}/t.jsonl
    << {"text": 1, "label": "a"}
    line 1: 'text' is 1
rows --train_file={here}/t.csv
    << a,1\nb,2\n
    line 1 has no 'text' ... give --header=False
rows --multi_label=true --train_file={here}/t.jsonl
    << {"text": "a", "label": [null]}
    line 1
rows --query_column=query --dev_share=0 --train_file={here}/t.csv
    << query,text,label\na,b,1\n ,c,0\n
    line 3: the column 'query' is empty
run_embeddings --train_file={here}/t.tsv
    << text\ttext_pair\n\t\n\t\n
    {here}/t.tsv
run_embeddings --train_batch_size=1 --train_file={here}/t.tsv
    << text\ttext_pair\na\tb\nc\td\n
    --train_batch_size=1
run_embeddings --do_eval=true --dev_file={here}/empty --train_file={here}/t.tsv
    << text\ttext_pair\na\tb\nc\td\n
    {here}/empty
run_embeddings --do_predict=true --train_file={here}/t.tsv
    << text\ttext_pair\na\tb\nc\td\n
    --do_predict
run_embeddings --projection_size=1000000000 --train_file={here}/t.tsv
    << text\ttext_pair\na\tb\nc\td\n
    --projection_size

predict -run_dir
    exactly one of the two
predict --saved_model=s
    exactly one of the two
predict -input_file
    --run_dir needs a file as --input_file
predict --input_file=-
    --run_dir needs a file
predict --input_file=
    --input_file is empty. Name a file.
predict -run_dir --saved_model=s --input_file=
    --input_file is empty. Name a file, or leave it out: standard
predict --signature=fill_mask
    --signature=fill_mask is only used with --saved_model
predict -run_dir --saved_model=s --task_module=my_task
    --task_module=my_task is only used with --run_dir
predict -run_dir --saved_model=s --vector_precision=int8
    --vector_precision=int8 is only used with --run_dir
predict -run_dir --saved_model=s --signature=compare --prompt=query
    --prompt=query chooses the signature `prompted`. Leave --signature out.
predict --prompt=query
    --prompt=query is not for the run ... one of rte
predict --dimensions=8
    --dimensions=8 is not for the run ... one of rte
predict -run_dir --saved_model=s --output_file=o.TSV
    --output_file=o.TSV: tables are written with --run_dir only
predict --output_file=o.CSV
    --output_file=o.CSV: tables are written with tabs
predict --run_dir=nowhere --input_file={here}/missing.txt
    --input_file= ... is not a file. C
predict -run_dir --saved_model=nowhere --input_file={here}/missing.txt
    --input_file= ... is not a file. C
predict --run_dir=nowhere --input_file={here}/folder
    --input_file= ... is not a file but a folder

export --precision=int8
    --precision=int8 does not go with --format=saved_model ... float32, bfloat16
export --precision=bfloat16 --format=onnx
    --precision=bfloat16 does not go with --format=onnx
export --with_text=false --format=onnx
    --with_text=False is only used with --format=saved_model
export --dimensions=8
    --dimensions=8 is for embedding, but the model is one of rte
export --checkpoint=model.ckpt-7
    --checkpoint= ... is neither a folder
export --run_dir={inputs}/pretrained --eval_file=dev.tsv
    --eval_file=dev.tsv needs a finetuned
export --eval_file={inputs}/config.json
    cannot be
export --eval_file=dev.tsv --format=mediapipe
    --eval_file=dev.tsv is only used with --format=saved_model, litert or onnx
export --run_dir={inputs}/pretrained --format=mediapipe
    --format=mediapipe takes models that give
export --calibration_file=a --format=litert --precision=int8
    --calibration_file=a is only used with --format=onnx
export --calibration_file=a --format=onnx
    --calibration_file=a is only used with --precision=int8
calibrated --calibration_file=a --run_dir={inputs}/pretrained
    --calibration_file=a needs a finetuned
calibrated --calibration_file={here}/no
    --calibration_file={here}/no does not exist
calibrated --calibration_file={here}/empty
    --calibration_file={here}/empty
export --vocab_file={inputs}/vocab.txt
    another vocabulary
export --run_dir=
    --run_dir
export --adaptive=true
    --adaptive needs --patience, --entropy or
export --patience=1
    --patience=1 is only used with --adaptive
export --adaptive=true --patience=1 --format=litert
    --adaptive=True is only used with --format=saved_model or onnx
convert_checkpoint --format=tf1 --to=
    --to
convert_checkpoint --format=tf1 --to={out}/
    --to=
convert_checkpoint --format=tf2 --to={out}/x.index
    --to=

run_race --output_dir={inputs}/race
    --output_dir= ... is in --data_dir
ensemble --run_dirs={inputs}/rte,{inputs}/./rte
    1 folder(s)
ensemble --run_dirs={inputs}/rte,nowhere
    --run_dirs= ... nowhere is not the folder of a run
write_run_card
    --output_dir= ... is not the folder

serve --saved_model=,
    --saved_model is empty. Name a model
serve --saved_model={inputs}/serve
    serve does not exist. Did you mean ... /served
serve --saved_model=m={here}/none
    none does not exist. Check the path
serve --saved_model={inputs}/served,{inputs}/./served
    are both called 'served'. Give one
serve --saved_model=m={inputs}/served,m={inputs}/rte
    are both called 'm'
serve --saved_model=/
    cannot be a name in an address. Give one as NAME=PATH
serve --saved_model={here}/folder
    folder is no SavedModel
serve --batch_size=5 --max_waiting=4
    --max_waiting=4 is below --batch
serve --saved_model={inputs}/served --host=1.2.3.4
    of --host=1.2.3.4 cannot be
serve --saved_model={inputs}/served --host=no.such.host.invalid
    of --host=no.such.host.invalid cannot be

create_pretraining_data --input_file={here}/pipe
    pipe
create_pretraining_data --input_file={here}/zero
    zero
create_pretraining_data --max_seq_length=4
    --max_seq_length=4
create_pretraining_data --random_next_sentence=true --sentence_objective=sop
    contradict each other

run_pretraining --train_batch_size=0
    --train_batch_size=0
run_pretraining --train_batch_size=1000000000
    --train_batch_size=1000000000
run_pretraining --eval_batch_size=1000000000 --do_eval=true
    --eval_batch_size=1000000000
run_pretraining --max_seq_length=65
    --max_seq_length=65 is longer than the 64 positions
run_pretraining --max_seq_length=31
    but the records
run_pretraining --max_seq_length=33
    but the records
run_pretraining --ngram=2
    --ngram=2 is only used with --masked_lm_budget
run_pretraining --masked_lm_budget=5 -spm_model_file
    --spm_model_file and --vocab_file are both missing
run_pretraining --do_permutation=true
    --do_permutation is not done in training
run_pretraining --masked_lm_budget=5 --do_permutation=true
    --do_permutation is not done in training
run_pretraining --masked_lm_budget=5
    hold masks already
run_pretraining --input_file=
    --input_file is empty
run_pretraining --eval_input_file=,
    input_file is empty
run_pretraining --input_file=x/*
    =x/* matches no file
run_pretraining --input_file={inputs}/passages/train.tfrecord
    holds passages, but --records=instances
plm --masked_lm_budget=0
    --objective=plm ... Give records without masks
spans --masked_lm_budget=0
    --objective=spans ... Give records without masks
plm --sentence_objective=sop
    Set --sentence_objective=none
spans --sentence_objective=sop
    Set --sentence_objective=none
plm --pack_sequences=true
    Set --pack_sequences=False
spans --ngram=2
    Set --ngram=3
passages --masked_lm_budget=0
    --records=passages is only used with --masked_lm_budget
passages --pack_sequences=true
    --pack_sequences=True is only used with --records=inst
run_pretraining --sentence_objective=none --token_objective=capitalization
    --token_objective=capitalization is only used with --records=pas
run_pretraining --sentence_objective=reordering,distance,nsp
    --sentence_objective=reordering,distance,nsp needs --rec
run_pretraining --sentence_objective=reordering
    =reordering need
passages --sentence_objective=order
    --sentence_objective=order is not
passages --mask_levels=phrase
    --mask_levels=phrase hides single units
passages --mask_levels=phrase --ngram=1 --do_whole_word_mask=false
    hides single units. Set --ngram=1, with --do_whole_word_mask
run_pretraining --masked_lm_budget=5 --mask_levels=basic
    --mask_levels=basic is only used with --records=passages
run_pretraining --task_embeddings=true
    embeddings=True is only used with --rec

run_classifier --max_seq_length=65
    --max_seq_length=65 is longer than the 64 positions
run_classifier --spm_model_file={inputs}/text.txt
    text.txt
run_classifier --data_dir={here}/folder
    --data_dir= ... has no RTE
run_classifier --init_checkpoint={here}/x-9
    --init_checkpoint={here}/x-9
run_classifier --output_dir={here}/run?
    --output_dir= ... run? has '?' in its name ... Choose a name without
run_pretraining --output_dir={here}/[1]
    --output_dir= ... [1] has '[' in its name ... Choose a name without
run_classifier --task_name=ax
    --do_train is set, but ... ax
run_classifier --task_name=ax --do_train=false --do_eval=true
    --do_eval is set, but ... ax
table --text_columns=a --label_column=b --data_dir=glue
    --data_dir=glue does not go with
table --text_columns=a --label_column=b --task_name=cola
    --task_name=cola does not go with
table --text_columns=a
    --label_column is not given
table
    --task_name is required
table --text_columns=a --label_column=d --labels=one
    --labels=one must be two labels
rows --few_shot=true --multi_label=true --train_file=t
    --few_shot=True is for tables whose texts have one label each
rows --few_shot=true --encoder_learning_rate=0 --train_file=t
    --encoder_learning_rate=0.0 does not go with --few_shot
rows --few_shot=true --weight_precision=int8 --train_file=t
    --weight_precision=int8 does not go with --few_shot
rows --labels_file=t --train_file=t
    --train_file=t does not go with --labels_file
rows --labels_file=t --num_runs=3
    --num_runs=3 does not go with --labels_file
rows --labels_file=t --class_weights=balanced
    --class_weights=balanced is about examples
rows --few_shot=true --windows=mean --train_file=t
    --windows=mean needs a head that is trained
rows --labels_file=t --few_shot=true
    --few_shot=True is about examples
rows --labels_file=t --none_label=other
    --none_label=other needs --none_threshold
rows --examples_per_label=2 --dev_share=0 --train_file={here}/t.csv
    << text,label\na,x\nb,y\nc,x\n
    --examples_per_label=2 ... has 1 of the label 'y'
rows --labels=x,y --labels_file={here}/t.csv
    << label,text\nx,a\nz,b\n
    line 3: the label 'z' is not one of
rows --labels=x,y,z --labels_file={here}/t.csv
    << label,text\nx,a\ny,b\n
    has no row to learn of the label 'z'
run_squad -train_file
    --do_train is set, but --train_file is missing
run_squad --do_train=false --do_eval=true
    --do_eval is set, but --predict_file is missing
run_squad --do_train=false --do_predict=true
    --do_predict is set, but --predict_file is missing
run_squad --pooling=pair
    --pooling=pair is for tasks
run_embeddings --teacher=rte
    --teacher=rte scores pairs of texts, which --train_examples=triplets
run_embeddings --gradient_accumulation_steps=4
    --train_batch_size ... --train_exam
distill --train_examples=pairs
    is for run_embeddings
distill --teacher=nowhere
    nowhere
distill -teacher
    --teacher and --teacher_vectors are missing
distill -teacher --teacher_vectors={here}/v.npy
    << 0.1 0.2
    --teacher_vectors= ... v.npy is not a whole NumPy file
distill -teacher --teacher_vectors=,
    --teacher_vectors=, names no file
distill --teacher_vectors=v.npy
    --teacher has no use beside --teacher_vectors
distill --teacher_dimensions=4096
    --teacher_dimensions=4096 is more than the width
distill -train_file
    has no file for it: train
run_glue -recipe_dir --tasks=rte,rtf
    --tasks has 'rtf'
run_glue -recipe_dir --tasks=ax
    --tasks has 'ax'
run_glue -recipe_dir --from_mnli=true
    --from_mnli needs mnli
run_glue --recipe_dir=no
    --recipe_dir=no/rte.flags
"""


def parsed(line: str) -> tuple[str, dict[str, object]]:
    """Return the command of a line, and its options; None: left out."""
    start, _, rest = line.partition(" ")
    command, *words = f"{STARTS.get(start, start)} {rest}".split()
    changes = {
        name.lstrip("-"): value if sign else None
        for name, sign, value in (word.partition("=") for word in words)
    }
    return command, changes


def cases(table: str) -> dict[str, Case]:
    found = {}
    for row in re.split(r"\n+(?=\S)", table.strip()):
        line, *contents, message = row.split("\n    ")
        command, changes = parsed(line)
        file = line.rpartition("{here}/")[2]
        content = "".join(contents).removeprefix("<<").removeprefix(" ")
        files = {file: unescaped(content)} if contents else {}
        name = f"{line}{len(found)}" if line in found else line
        found[name] = Case(command, changes, message.split(" ... "), files)
    return found


def unescaped(content: str) -> bytes:
    return content.encode("latin-1").decode("unicode_escape").encode()


CASES = cases(TABLE)
