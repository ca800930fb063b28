"""The defaults of all options, frozen: a changed one changes every run.

Those of the original's options are the original's; README names the others.
"""

import dataclasses
import importlib

import pytest

# By class; what is not here is None, False or "".
DEFAULTS = {
    "albert_tf.run_pretraining:PretrainingOptions": {
        "max_seq_length": 512,
        "masked_lm_budget": 0,
        "do_train": True,
        "train_batch_size": 4096,
        "eval_batch_size": 64,
        "max_eval_steps": 100,
    },
    "albert_tf.training.pretraining_options:RecipeOptions": {
        "objective": "mlm",
        "generator_size": 0.25,
        "generator_sharing": "embeddings",
        "replaced_token_factor": 50.0,
        "sentence_objective": "sop",
        "masked_lm_factor": 1.0,
        "sentence_factor": 1.0,
        "num_train_steps": 125000,
        "num_warmup_steps": 3125,
        "init_schedule": "restart",
    },
    "albert_tf.model.model_options:OptimizerOptions": {
        "optimizer": "lamb",
        "learning_rate": 0.00176,
        "poly_power": 1.0,
        "start_warmup_step": 0,
    },
    "albert_tf.text.tokenization:VocabularyOptions": {},
    "albert_tf.data.masking:MaskingOptions": {
        "max_predictions_per_seq": 20,
        "masked_lm_prob": 0.15,
        "ngram": 3,
        "favor_shorter_ngram": True,
        "do_whole_word_mask": True,
    },
    "albert_tf.training.training_options:UpdateOptions": {
        "precision": "float32",
        "gradient_accumulation_steps": 1,
        "seed": 12345,
    },
    "albert_tf.training.training_options:TrainerOptions": {
        "precision": "float32",
        "iterations_per_loop": 1000,
        "save_checkpoints_steps": 5000,
        "keep_checkpoint_max": 5,
        "gradient_accumulation_steps": 1,
        "max_minutes": 0.0,
        "max_skipped_updates": 10,
        "seed": 12345,
    },
    "albert_tf.training.training_options:DistributionOptions": {
        "distribution_strategy": "one_device",
        "task_index": 0,
    },
    "albert_tf.finetuning.finetuning_options:FinetuningOptions": {
        "max_seq_length": 512,
        "train_batch_size": 32,
        "eval_batch_size": 8,
        "predict_batch_size": 8,
        "early_stopping_evaluations": 0,
        "num_runs": 1,
    },
    "albert_tf.finetuning.finetuning_options:LengthOptions": {
        "num_train_epochs": 3.0,
        "warmup_proportion": 0.1,
    },
    "albert_tf.run_squad:RunSquadOptions": {
        "task_name": "squad",
    },
    "albert_tf.run_squad:SquadFinetuningOptions": {
        "max_seq_length": 384,
        "train_batch_size": 32,
        "eval_batch_size": 8,
        "predict_batch_size": 8,
        "early_stopping_evaluations": 0,
        "num_runs": 1,
    },
    "albert_tf.finetuning.squad.squad:SquadOptions": {
        "squad_version": "2.0",
        "start_n_top": 5,
        "end_n_top": 5,
        "dropout_prob": 0.1,
    },
    "albert_tf.finetuning.squad.squad_features:WindowOptions": {
        "doc_stride": 128,
        "max_query_length": 64,
    },
    "albert_tf.finetuning.squad.squad_answers:AnswerOptions": {
        "n_best_size": 20,
        "max_answer_length": 30,
    },
    "albert_tf.run_race:RunRaceOptions": {
        "task_name": "race",
    },
    "albert_tf.finetuning.race:RaceOptions": {
        "max_qa_length": 128,
        "num_options": 4,
        "dropout_prob": 0.1,
    },
    "albert_tf.run_glue:GlueOptions": {
        "tasks": "cola,sst-2,mrpc,sts-b,qqp,mnli,qnli,rte,wnli",
        "recipe_dir": "configs/glue",
    },
    "albert_tf.predict:PredictOptions": {
        "output_file": "-",
        "batch_size": 32,
    },
    "data_prep.create_finetuning_data:FinetuningDataOptions": {
        "max_seq_length": 512,
        "num_workers": 0,
    },
    "albert_tf.export:ExportOptions": {
        "format": "saved_model",
        "precision": "float32",
        "with_text": True,
    },
    "albert_tf.demo:DemoPageOptions": {
        "port": 7860,
        "host": "127.0.0.1",
    },
    "data_prep.train_sentencepiece:Options": {
        "vocab_size": 30000,
        "input_sentence_size": 10000000,
        "do_lower_case": True,
    },
    "data_prep.train_wordpiece:Options": {
        "vocab_size": 30000,
        "unit": "wordpiece",
        "do_lower_case": True,
    },
    "data_prep.split_sentences:Options": {
        "max_document_sentences": 0,
        "num_processes": 0,
    },
    "data_prep.inspect_records:InspectOptions": {
        "num_examples": 5,
        "statistics": True,
    },
    "data_prep.make_word_embeddings:WordEmbeddingsOptions": {
        "max_records": 1000000,
        "stddev": 0.1,
        "random_seed": 12345,
    },
    "data_prep.make_demo_data:DemoOptions": {
        "random_seed": 12345,
        "num_stories": 3600,
        "num_task_examples": 6000,
    },
    "data_prep.writer.writer_options:CreatePretrainingDataOptions": {
        "random_seed": 12345,
        "dupe_factor": 40,
        "masking_time": "writing",
        "word_segmenter": "none",
        "num_workers": 0,
    },
    "data_prep.writer.corpus:CorpusOptions": {
        "input_format": "lines",
        "json_field": "text",
        "text_column": "text",
        "on_bad_line": "fail",
    },
    "data_prep.writer.segment_pairs:PairOptions": {
        "max_seq_length": 512,
        "short_seq_prob": 0.1,
        "single_segment_policy": "split",
    },
}


@pytest.mark.parametrize("where", DEFAULTS)
def test_defaults_are_frozen(where):
    module, name = where.split(":")
    options_class = getattr(importlib.import_module(module), name)
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(options_class)
        if field.default is not dataclasses.MISSING
        and not dataclasses.is_dataclass(field.default)
        and field.default not in (None, "")
        and field.default is not False
    }
    assert defaults == DEFAULTS[where]


def test_other_options_have_none():
    """Every class of options is in the table, or has nothing to be there."""
    # Imported here: it loads all scripts.
    from tests.test_option_ranges import all_classes

    for options_class in all_classes():
        name = f"{options_class.__module__}:{options_class.__qualname__}"
        if name not in DEFAULTS:
            for field in dataclasses.fields(options_class):
                assert field.default in (
                    None,
                    False,
                    "",
                    dataclasses.MISSING,
                ) or dataclasses.is_dataclass(field.default), (
                    f"{name}.{field.name}"
                )
