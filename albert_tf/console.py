"""Console scripts: `albert-predict` is `python -m albert_tf.predict`.

Each command stays a module, so both ways do the same.
tests/test_wheel.py installs the package and runs one of them.
"""

import functools
import runpy


def _run(module: str) -> None:
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _command(module: str) -> functools.partial[None]:
    return functools.partial(_run, module)


pretrain = _command("albert_tf.run_pretraining")
classifier = _command("albert_tf.run_classifier")
squad = _command("albert_tf.run_squad")
race = _command("albert_tf.run_race")
embeddings = _command("albert_tf.run_embeddings")
tagger = _command("albert_tf.run_tagger")
distill = _command("albert_tf.distill")
glue = _command("albert_tf.run_glue")
ensemble = _command("albert_tf.ensemble")
predict = _command("albert_tf.predict")
serve = _command("albert_tf.serve")
export = _command("albert_tf.export")
convert_checkpoint = _command("albert_tf.convert_checkpoint")
write_run_card = _command("albert_tf.write_run_card")
extract_passages = _command("data_prep.extract_passages")
split_sentences = _command("data_prep.split_sentences")
train_sentencepiece = _command("data_prep.train_sentencepiece")
train_wordpiece = _command("data_prep.train_wordpiece")
create_pretraining_data = _command("data_prep.create_pretraining_data")
inspect_records = _command("data_prep.inspect_records")
create_finetuning_data = _command("data_prep.create_finetuning_data")
make_demo_data = _command("data_prep.make_demo_data")
make_word_embeddings = _command("data_prep.make_word_embeddings")
mine_negatives = _command("data_prep.mine_negatives")
