"""The options of every command and their defaults: a public interface.

A changed default changes every run. Those of the original's options are the
original's; README names the others. Add a new or renamed option also to docs/
and CHANGELOG.md.
"""

import dataclasses
import importlib

from albert_tf.common import option_help, options
from tests.conftest import python

# NAME=DEFAULT, or NAME alone for None, False or no text; an option with ! must
# be given.
VOCABULARY = """
    spm_model_file vocab_file do_lower_case keep_accents strip_spurious_marker
"""
MASKING = """
    max_predictions_per_seq=20 masked_lm_prob=0.15 ngram=3
    favor_shorter_ngram=True do_whole_word_mask=True do_permutation
    stop_ngrams_at_sep
"""
OPTIMIZER = """
    bias_correction beta_2=0.999 poly_power=1.0 start_warmup_step=0
    original_start_warmup
    init_checkpoint init_from_group0 init_shallower new_weights
"""
UPDATES = """
    precision=float32 weight_precision=float32 quantize_from=0.8 recompute
    gradient_accumulation_steps=1 seed=12345
"""
SHARED = f"""
    {VOCABULARY} {OPTIMIZER} {UPDATES} max_minutes=0.0 profile_steps
    iterations_per_loop=1000 keep_checkpoint_max=5
    distribution_strategy=one_device worker_hosts task_index=0
    use_tpu tpu_name tpu_zone gcp_project
"""
FINETUNING = f"""
    albert_config_file! output_dir! cached_dir do_train do_eval do_predict
    optimizer=adamw learning_rate=5e-05 save_checkpoints_steps=1000
    train_batch_size=32 eval_batch_size=8 predict_batch_size=8
    train_feature_file pad_to_max early_stopping_evaluations=0 num_runs=1
    new_head hidden_dropout_prob attention_probs_dropout_prob pooling
    num_hidden_layers exit_layers exit_heads
    encoder_learning_rate train_step warmup_step num_train_epochs=3.0
    warmup_proportion=0.1 {SHARED}
"""
FORM = "dimensions vector_precision prompts prompt"
VECTORS = f"""
    train_examples=scored dev_examples text_pooling projection_size
    max_score=1.0 temperature=0.05 prefix_dimensions {FORM}
"""
TAGGING = "tags word_column=1 tag_column=-1"
OF_TEXTS = VECTORS.replace("=scored", "=texts").replace(
    "dev_examples", "dev_examples=scored"
)
TABLE = """
    text_columns label_column id_column header=True labels
    class_weights=none best_score dev_share split_seed=12345 split_by
    multi_label label_separator label_thresholds
    few_shot examples_per_label labels_file none_label none_threshold
    regression label_mean label_deviation
    query_column ranking_loss pairs_per_text ndcg_at
    windows=first window_stride
"""
TEACHER = "teacher teacher_weight temperature"
RACE = """
    max_qa_length=128 num_options=4 pad_options middle_only high_only
    dropout_prob=0.1
"""
OBJECTIVE = """
    optimizer=lamb learning_rate=0.00176
    objective=mlm sentence_objective=sop masked_lm_factor=1.0
    sentence_factor=1.0 token_objective=none token_factor=1.0 task_stages
    mask_levels markers_file task_embeddings
    generator_size=0.25 generator_sharing=embeddings
    replaced_token_factor=50.0 word_embeddings_file init_schedule=restart
    num_train_steps=125000 num_warmup_steps=3125
    max_seq_length=512 train_batch_size=4096
"""
WRITER = f"""
    {VOCABULARY} {MASKING} input_file! input_format=lines json_field=text
    text_column=text split_sentences language on_bad_line=fail output_file!
    num_shards num_workers=0 dask_scheduler drop_duplicates masking_time=writing
    word_start_rule word_segmenter=none sentence_objective
    single_segment_policy=split random_seed=12345 dupe_factor=40 overwrite
    max_seq_length=512 short_seq_prob=0.1 random_next_sentence
    records=instances cross_documents phrase_file entity_file
"""
OPTIONS = {
    "albert_tf.run_pretraining:PretrainingOptions": f"""
        albert_config_file! input_file! output_dir! eval_input_file {MASKING}
        records=instances masked_lm_budget=0 pack_sequences do_train=True
        do_eval eval_batch_size=64 max_eval_steps=100
        save_checkpoints_steps=5000 best_metric follow_checkpoints
        {OBJECTIVE} {SHARED}
    """,
    "albert_tf.run_classifier:ClassifierOptions": f"""
        data_dir task_name task_module train_file dev_file test_file {TABLE}
        max_seq_length=512 {TEACHER} {FINETUNING}
    """,
    "albert_tf.run_squad:RunSquadOptions": f"""
        train_file predict_file task_name=squad squad_version=2.0
        start_n_top=5 end_n_top=5 dropout_prob=0.1 null_score_diff_threshold
        answer_units original_threshold doc_stride=128 max_query_length=64
        n_best_size=20 max_answer_length=30 max_seq_length=384 {TEACHER}
        {FINETUNING}
    """,
    "albert_tf.run_race:RunRaceOptions": f"""
        data_dir! task_name=race max_seq_length=512 {RACE} {TEACHER}
        {FINETUNING}
    """,
    "albert_tf.run_embeddings:RunEmbeddingsOptions": f"""
        train_file dev_file test_file task_name=embedding max_seq_length=512
        teacher teacher_weight=0.5 {VECTORS} {FINETUNING}
    """,
    "albert_tf.run_tagger:RunTaggerOptions": f"""
        train_file dev_file test_file task_name=tagging max_seq_length=512
        {TAGGING} {TEACHER} {FINETUNING}
    """,
    "albert_tf.distill:DistillOptions": f"""
        teacher teacher_vectors teacher_dimensions
        train_file dev_file test_file teacher_pooling
        similarity_weight=10.0 order_weight=0.0
        hidden_weight=0.0 relation_weight=0.0 masked_words_weight=0.0
        word_embeddings=teacher task_name=embedding
        max_seq_length=512 {OF_TEXTS} {FINETUNING}
    """,
    "albert_tf.run_glue:GlueOptions": """
        data_dir! output_dir! recipe_dir=configs/glue from_mnli
        tasks=cola,sst-2,mrpc,sts-b,qqp,mnli,qnli,rte,wnli
        albert_config_file spm_model_file vocab_file init_checkpoint num_runs
        overrides submission_file
    """,
    "albert_tf.predict:PredictOptions": """
        run_dir saved_model input_file output_file=- checkpoint signature
        batch_size=32 task_module strict overwrite dimensions vector_precision
        prompt
    """,
    "albert_tf.ensemble:EnsembleOptions": """
        run_dirs! output_dir! data_dir predict_file task_module
    """,
    "albert_tf.write_run_card:RunCardOptions": "output_dir!",
    "data_prep.create_finetuning_data:FinetuningDataOptions": f"""
        {VOCABULARY} {RACE} {VECTORS} {TAGGING} task_name!
        input_file! output_file! is_training
        split max_seq_length=512 task_module num_workers=0 overwrite
        doc_stride=128 max_query_length=64
    """,
    "data_prep.extract_passages:Options": """
        output_file! squad_file race_dir overwrite
    """,
    "albert_tf.export:ExportOptions": f"""
        {VOCABULARY} export_dir! format=saved_model precision=float32
        with_text=True adaptive patience entropy depth
        eval_file calibration_file run_dir checkpoint init_checkpoint
        albert_config_file task text_pooling max_seq_length num_labels labels
        tags pairs squad_version start_n_top end_n_top null_score_diff_threshold
        doc_stride max_query_length max_answer_length n_best_size num_options
        max_qa_length overwrite task_module {FORM}
    """,
    "albert_tf.serve:ServeOptions": """
        saved_model! port=8501 host=127.0.0.1 batch_size=32 batch_wait=0.0
        max_waiting=256 max_body_bytes=1000000
    """,
    "albert_tf.convert_checkpoint:ConvertOptions": """
        from! to! format! albert_config_file spm_model_file vocab_file
        do_lower_case keep_accents strip_spurious_marker task_module overwrite
        text_pooling new_vocab_file keep_pieces_of onnx
    """,
    "data_prep.train_sentencepiece:Options": """
        input_file! output_prefix! vocab_size=30000 character_coverage
        input_sentence_size=10000000 do_lower_case=True keep_accents
        byte_fallback model_type=unigram compare_with overwrite
    """,
    "data_prep.train_wordpiece:Options": """
        input_file! output_prefix! vocab_size=30000 unit=wordpiece
        character_coverage do_lower_case=True keep_accents compare_with
        overwrite
    """,
    "data_prep.split_sentences:Options": """
        input_file! output_file! language keep_titles
        max_document_sentences=0 num_processes=0 overwrite
    """,
    "data_prep.inspect_records:InspectOptions": f"""
        {VOCABULARY} input_file! markers_file num_examples=5 statistics=True
        objective=none sentence_objective=none
    """,
    "data_prep.make_word_embeddings:WordEmbeddingsOptions": """
        input_file! albert_config_file! output_file! stddev=0.1
        random_seed=12345 overwrite
    """,
    "data_prep.mine_negatives:MiningOptions": """
        train_file! output_file! teacher teacher_vectors query_prompt
        passage_prompt max_seq_length=512
        negatives=1 max_share=0.95 skip_ranks=0 draw_from
        random_seed=12345
    """,
    "data_prep.make_demo_data:DemoOptions": """
        output_dir! random_seed=12345 num_stories=3600 num_task_examples=6000
    """,
    "data_prep.create_pretraining_data:CreatePretrainingDataOptions": WRITER,
}


def options_class(where):
    module, name = where.split(":")
    return getattr(importlib.import_module(module), name)


def flags_of(where):
    return list(options.iter_flags(options_class(where)))


def described(flag):
    if flag.is_required:
        return f"{flag.name}!"
    is_empty = flag.default is None or flag.default is False
    return (
        flag.name
        if is_empty or flag.default == ""
        else f"{flag.name}={flag.default}"
    )


def test_options_and_defaults_are_frozen():
    for where, text in OPTIONS.items():
        found = sorted(map(described, flags_of(where)))
        assert found == sorted(text.split()), where


def test_help_has_what_must_be_given_and_fits_the_screen():
    for where in OPTIONS:
        flags = flags_of(where)
        shown = option_help.help_text("", flags, full=False)
        for flag in flags:
            assert not flag.is_required or f"--{flag.name}=" in shown, where
        for full in (False, True):
            lines = option_help.help_text("", flags, full).splitlines()
            assert max(map(len, lines)) <= option_help.WIDTH


def test_help_has_the_sections_that_options_name():
    flags = [flag for where in OPTIONS for flag in flags_of(where)]
    assert {f.section for f in flags} == {None, *option_help.SECTIONS}


def test_options_have_types_that_flags_can_have():
    for where in OPTIONS:
        for flag in flags_of(where):
            assert flag.type in (str, int, float, bool), flag
            fits = isinstance(flag.default, (flag.type, type(None)))
            assert fits or flag.default is dataclasses.MISSING, flag


# Runs each command several times; tells the status, and what it loaded.
PROGRAM = """
import runpy
import sys
for module, calls in MODULES.items():
    for words in calls:
        sys.argv = ["command", *words]
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as left:
            loaded = {"tensorflow", "keras", "tf_keras"} & set(sys.modules)
            print("left", module, words, left.code, loaded, file=sys.stderr)
"""


MODEL = ["--albert_config_file=albert_base_v2", "--output_dir=x", "--do_train"]
STUDENT = ["--vocab_file=albert_small_en", *MODEL]
# The first option names what is not there.
MISSING = {
    "export": ["--run_dir=nowhere", "--export_dir=x"],
    "predict": ["--run_dir=nowhere", "--input_file=README.md"],
    "ensemble": ["--run_dirs=nowhere", "--output_dir=x"],
    "convert_checkpoint": ["--from=nowhere", "--to=x", "--format=tf2"],
    "write_run_card": ["--output_dir=nowhere"],
    "run_squad": ["--spm_model_file=nowhere", "--train_file=x", *MODEL],
    "run_tagger": ["--vocab_file=nowhere", "--train_file=x", *MODEL],
    "distill": ["--teacher=nowhere", "--train_file=README.md", *STUDENT],
    "run_embeddings": ["--train_file=nowhere", *STUDENT],
    "run_race": ["--spm_model_file=nowhere", "--data_dir=x", *MODEL],
}


def test_help_and_wrong_options_load_no_tensorflow():
    modules = [where.split(":")[0] for where in OPTIONS]
    calls = {
        module: [["--help"], ["--helpfull"], ["--absent=1"], []]
        for module in modules
    }
    for name, words in MISSING.items():
        calls[f"albert_tf.{name}"].append(words)
    done = python("-c", f"MODULES = {calls}{PROGRAM}")
    said = done.stderr.splitlines()
    assert [line for line in said if line.startswith("left ")] == [
        f"left {module} {words} {0 if '--help' in str(words) else 2} set()"
        for module in modules
        for words in calls[module]
    ]
    assert done.stderr.count("flag 'absent'") == len(modules)
    for words in MISSING.values():
        assert f"error: {words[0]} does not exist. Check" in done.stderr
