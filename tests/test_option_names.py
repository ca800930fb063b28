"""The options of every script: a public interface, so they are frozen here.

Add a new or renamed option also to docs/ and CHANGELOG.md.
"""

import importlib

import pytest

from albert_tf.common import options

VOCABULARY = """
    spm_model_file vocab_file do_lower_case keep_accents strip_spurious_marker
"""
MASKING = """
    max_predictions_per_seq masked_lm_prob ngram favor_shorter_ngram
    do_whole_word_mask do_permutation stop_ngrams_at_sep
"""
SHARED = f"""
    {VOCABULARY}
    optimizer bias_correction learning_rate poly_power start_warmup_step
    original_start_warmup
    init_checkpoint init_from_group0 init_shallower new_weights
    precision recompute max_minutes max_skipped_updates profile_steps
    iterations_per_loop save_checkpoints_steps keep_checkpoint_max seed
    gradient_accumulation_steps
    distribution_strategy worker_hosts task_index
    use_tpu tpu_name tpu_zone gcp_project
"""
FINETUNING = f"""
    albert_config_file output_dir cached_dir max_seq_length
    do_train do_eval do_predict
    train_batch_size eval_batch_size predict_batch_size
    train_feature_file pad_to_max early_stopping_evaluations num_runs new_head
    hidden_dropout_prob attention_probs_dropout_prob pooling
    encoder_learning_rate
    train_step warmup_step num_train_epochs warmup_proportion {SHARED}
"""
RACE = """
    max_qa_length num_options pad_options middle_only high_only
    dropout_prob
"""
OBJECTIVE = """
    objective sentence_objective masked_lm_factor sentence_factor generator_size
    generator_sharing replaced_token_factor word_embeddings_file
"""
WRITER = f"""
    {VOCABULARY} input_file input_format json_field text_column split_sentences
    language on_bad_line output_file num_shards num_workers dask_scheduler
    drop_duplicates
    masking_time word_start_rule word_segmenter sentence_objective
    single_segment_policy random_seed dupe_factor overwrite max_seq_length
    short_seq_prob random_next_sentence {MASKING}
    """
OPTIONS = {
    "albert_tf.run_pretraining:PretrainingOptions": f"""
        albert_config_file input_file output_dir eval_input_file
        max_seq_length {MASKING} masked_lm_budget pack_sequences
        do_train do_eval train_batch_size eval_batch_size num_train_steps
        num_warmup_steps max_eval_steps {SHARED}
        {OBJECTIVE} best_metric follow_checkpoints init_schedule
    """,
    "albert_tf.run_classifier:ClassifierOptions": f"""
        data_dir task_name task_module {FINETUNING}
    """,
    "albert_tf.run_squad:RunSquadOptions": f"""
        train_file predict_file task_name squad_version start_n_top end_n_top
        dropout_prob null_score_diff_threshold original_threshold doc_stride
        max_query_length n_best_size max_answer_length {FINETUNING}
    """,
    "albert_tf.run_race:RunRaceOptions": f"""
        data_dir task_name {RACE} {FINETUNING}
    """,
    "albert_tf.run_glue:GlueOptions": """
        data_dir output_dir tasks recipe_dir from_mnli albert_config_file
        spm_model_file vocab_file init_checkpoint num_runs overrides
        submission_file
    """,
    "albert_tf.predict:PredictOptions": """
        run_dir saved_model input_file output_file checkpoint signature
        batch_size task_module strict
    """,
    "albert_tf.ensemble:EnsembleOptions": """
        run_dirs output_dir data_dir predict_file task_module""",
    "albert_tf.write_run_card:RunCardOptions": "output_dir",
    "data_prep.create_finetuning_data:FinetuningDataOptions": f"""
        {VOCABULARY} {RACE} task_name input_file output_file is_training split
        max_seq_length task_module num_workers overwrite doc_stride
        max_query_length
    """,
    "data_prep.extract_passages:Options": """
        output_file squad_file race_dir overwrite
    """,
    "albert_tf.export:ExportOptions": f"""
        {VOCABULARY} export_dir format precision with_text eval_file run_dir
        checkpoint init_checkpoint albert_config_file task max_seq_length
        num_labels labels pairs squad_version start_n_top end_n_top
        null_score_diff_threshold doc_stride max_query_length max_answer_length
        n_best_size num_options max_qa_length overwrite task_module
    """,
    "albert_tf.demo:DemoPageOptions": "saved_model port host",
    "albert_tf.convert_checkpoint:ConvertOptions": """
        from to format albert_config_file spm_model_file vocab_file
        do_lower_case keep_accents strip_spurious_marker task_module overwrite
    """,
    "data_prep.train_sentencepiece:Options": """
        input_file output_prefix vocab_size character_coverage
        input_sentence_size do_lower_case keep_accents byte_fallback
        compare_with
    """,
    "data_prep.train_wordpiece:Options": """
        input_file output_prefix vocab_size unit character_coverage
        do_lower_case keep_accents compare_with
    """,
    "data_prep.split_sentences:Options": """
        input_file output_file language paragraphs_as_documents
        max_document_sentences num_processes overwrite
    """,
    "data_prep.inspect_records:InspectOptions": f"""
        {VOCABULARY} input_file num_examples statistics
    """,
    "data_prep.make_word_embeddings:WordEmbeddingsOptions": """
        input_file albert_config_file output_file max_records stddev
        random_seed overwrite
    """,
    "data_prep.make_demo_data:DemoOptions": """
        output_dir random_seed num_stories num_task_examples
    """,
    "data_prep.create_pretraining_data:CreatePretrainingDataOptions": WRITER,
}


@pytest.mark.parametrize("where", OPTIONS)
def test_option_names_are_frozen(where):
    module, name = where.split(":")
    options_class = getattr(importlib.import_module(module), name)
    assert sorted(options.names(options_class)) == sorted(
        OPTIONS[where].split()
    )
