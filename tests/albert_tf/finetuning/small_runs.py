"""Short finetuning runs of a tiny model, for several test files."""

import json
import os
import types

from albert_tf import ensemble, run_classifier, run_race, run_squad
from albert_tf.finetuning import finetuning_options
from albert_tf.model.heads import classification
from albert_tf.tasks.glue import specs
from albert_tf.tasks.race import task as race
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import task as squad
from albert_tf.text import tokenization
from albert_tf.training import run_log, training_options
from tests import own_tasks
from tests.conftest import changed, tiny_config

LENGTH = 48
PAIRS = (("It rains.", "It is wet."), ("We stay.", "We go."), ("A.", "B."))


def make_world(folder, vocabulary):
    """A tiny architecture, and some tasks in their official layouts."""
    config = tiny_config()
    (folder / "config.json").write_text(config.to_json())
    own_tasks.write_rte(folder / "glue/RTE", train=40, dev=12, test=10)
    for name, split in specs.TASKS["mnli"].splits.items():
        if name != "ax":
            pairs = PAIRS[:2] if "mismatched" in name else PAIRS
            write(folder / "glue" / split.file, mnli_rows(split.columns, pairs))
    write(
        folder / "glue/AX/diagnostic.tsv", "\tsentence1\tsentence2\n0\tA.\tB.\n"
    )
    rows = [
        "\t".join(["x"] * 7 + [*pair, str(n)]) for n, pair in enumerate(PAIRS)
    ]
    for split in ("train", "dev", "test"):
        columns = specs.TASKS["sts-b"].splits[split].columns
        kept = (row.split("\t")[: len(columns)] for row in rows)
        lines = ["\t".join(columns), *map("\t".join, kept), ""]
        write(folder / f"glue/STS-B/{split}.tsv", "\n".join(lines))
    own_tasks.write_race(folder / "race", middle=3, high=2)
    for split, count in (("train", 2), ("dev", 1)):
        content = json.dumps(own_tasks.squad(split, count))
        write(folder / f"squad/{split}.json", content)
    return types.SimpleNamespace(
        folder=folder,
        squad=folder / "squad",
        config=str(folder / "config.json"),
        vocabulary=vocabulary,
        glue=str(folder / "glue"),
        race=str(folder / "race"),
    )


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def mnli_rows(columns, pairs):
    lines = ["\t".join(columns)]
    for index, pair in enumerate(pairs):
        fields = [str(index)] + ["x"] * (len(columns) - 1)
        fields[8:10] = pair
        if len(columns) > 10:
            fields[-1] = specs.TASKS["mnli"].labels[index]
        lines.append("\t".join(fields))
    return "\n".join(lines) + "\n"


def shared(world, output_dir, **values):
    """Options of a short run."""
    base = finetuning_options.FinetuningOptions(
        vocabulary=tokenization.VocabularyOptions(world.vocabulary),
        albert_config_file=world.config,
        output_dir=str(output_dir),
        max_seq_length=LENGTH,
        do_train=True,
        do_eval=True,
        do_predict=True,
        train_batch_size=8,
        length=finetuning_options.LengthOptions(train_step=2, warmup_step=1),
        trainer=training_options.TrainerOptions(
            save_checkpoints_steps=1, iterations_per_loop=1
        ),
    )
    return changed(base, **values)


def classifier(world, output_dir, task_name="rte", **values):
    return run_classifier.ClassifierOptions(
        finetuning=shared(world, output_dir, **values),
        data_dir=world.glue,
        task_name=task_name,
    )


def answerer(world, output_dir, **values):
    settings = run_squad.RunSquadOptions(
        finetuning=changed(
            run_squad.SquadFinetuningOptions(**vars(shared(world, output_dir))),
            max_seq_length=56,
        ),
        train_file=str(world.squad / "train.json"),
        predict_file=str(world.squad / "dev.json"),
        questions=squad.SquadOptions(
            dropout_prob=0.0,
            windows=squad_features.PassageWindows(16, 16),
        ),
    )
    return changed(settings, **values)


def racer(world, output_dir, **values):
    settings = run_race.RunRaceOptions(
        finetuning=shared(world, output_dir, max_seq_length=64),
        data_dir=world.race,
        questions=race.RaceOptions(max_qa_length=24, dropout_prob=0.0),
    )
    return changed(settings, **values)


KINDS = {
    "rte": (run_classifier.run, classifier),
    "squad": (run_squad.run, answerer),
    "race": (run_race.run, racer),
}


def drop_no_outputs(patch):
    """Build GLUE's classifiers without dropout."""
    make = classification.AlbertClassifier
    patch.setattr(
        classification,
        "AlbertClassifier",
        lambda e, n, *_, **scale: make(e, n, 0.0, **scale),
    )


def metrics(folder, split):
    lines = run_log.read(str(folder))
    return [line for line in lines if line["split"] == split]


def open_lines(path):
    with open(path, encoding="utf-8") as stream:
        # The text has other separators, which end no line.
        return stream.read().removesuffix("\n").split("\n")


def open_text(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as stream:
        return stream.read()


def average(folders, output_dir, **values):
    ensemble.run(
        ensemble.EnsembleOptions(
            run_dirs=",".join(map(str, folders)),
            output_dir=str(output_dir),
            **values,
        )
    )
