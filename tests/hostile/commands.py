"""Every command with options that work, and a folder to run it in.

`{inputs}` is the folder of valid files, `{here}` the current folder of the
command, `{out}` the folder that it may write to.
"""

import dataclasses
import importlib
import os
import pathlib
import shutil
import stat
import tempfile

from albert_tf.common import options

LENGTH, PREDICTIONS = 32, 5
STATUSES = {0, 1, 2, 42, 130}
_MODEL = """
    albert_config_file={inputs}/config.json spm_model_file={inputs}/spm.model
"""
_FINETUNING = f"""
    {_MODEL} init_checkpoint={{inputs}}/pretrained output_dir={{out}}/run
    max_seq_length={LENGTH} do_train=True train_batch_size=4 train_step=1
"""
# By the names in tests/test_option_names.py.
_COMMANDS = {
    "albert_tf.run_pretraining:PretrainingOptions": f"""
        {_MODEL} num_train_steps=2 num_warmup_steps=1 train_batch_size=4
        learning_rate=0.001 max_seq_length={LENGTH}
        max_predictions_per_seq={PREDICTIONS}
        input_file={{inputs}}/records/train.tfrecord output_dir={{out}}/run
    """,
    "albert_tf.run_classifier:ClassifierOptions": f"""
        {_FINETUNING} data_dir={{inputs}}/glue task_name=rte
    """,
    "albert_tf.run_squad:RunSquadOptions": f"""
        {_FINETUNING} train_file={{inputs}}/squad.json max_query_length=8
        doc_stride=8
    """,
    "albert_tf.run_race:RunRaceOptions": f"""
        {_FINETUNING} data_dir={{inputs}}/race max_qa_length=16
    """,
    "albert_tf.run_embeddings:RunEmbeddingsOptions": f"""
        {_FINETUNING} train_file={{inputs}}/pairs.tsv train_examples=pairs
    """,
    "albert_tf.run_tagger:RunTaggerOptions": f"""
        {_FINETUNING} train_file={{inputs}}/tags.conll
    """,
    "albert_tf.distill:DistillOptions": f"""
        {_FINETUNING} teacher={{inputs}}/rte train_file={{inputs}}/pairs.tsv
    """,
    "albert_tf.run_glue:GlueOptions": """
        data_dir={inputs}/glue output_dir={out}/glue tasks=rte recipe_dir={here}
    """,
    "albert_tf.predict:PredictOptions": """
        run_dir={inputs}/rte input_file={inputs}/pairs.tsv
        output_file={out}/answers.jsonl
    """,
    "albert_tf.ensemble:EnsembleOptions": """
        run_dirs={inputs}/rte,{inputs}/rte_again output_dir={out}/both
    """,
    "albert_tf.write_run_card:RunCardOptions": "output_dir={out}/pretrained",
    "data_prep.create_finetuning_data:FinetuningDataOptions": f"""
        task_name=rte input_file={{inputs}}/glue/RTE/train.tsv
        output_file={{out}}/rte.tfrecord spm_model_file={{inputs}}/spm.model
        max_seq_length={LENGTH} num_workers=1
    """,
    "data_prep.extract_passages:Options": """
        squad_file={inputs}/squad.json race_dir={inputs}/race/dev
        output_file={out}/passages.txt
    """,
    "albert_tf.export:ExportOptions": """
        run_dir={inputs}/rte export_dir={out}/served
    """,
    "albert_tf.serve:ServeOptions": "saved_model={inputs}/nowhere port=0",
    "albert_tf.convert_checkpoint:ConvertOptions": """
        from={inputs}/pretrained to={out}/converted format=huggingface
    """,
    "data_prep.train_sentencepiece:Options": """
        input_file={inputs}/text.txt output_prefix={out}/words vocab_size=120
    """,
    "data_prep.train_wordpiece:Options": """
        input_file={inputs}/text.txt output_prefix={out}/pieces unit=character
    """,
    "data_prep.split_sentences:Options": """
        input_file={inputs}/text.txt output_file={out}/sentences.txt
        num_processes=1
    """,
    "data_prep.inspect_records:InspectOptions": """
        input_file={inputs}/records/train.tfrecord
    """,
    "data_prep.make_word_embeddings:WordEmbeddingsOptions": """
        input_file={inputs}/records/train.tfrecord
        albert_config_file={inputs}/config.json output_file={out}/words.npy
    """,
    "data_prep.mine_negatives:MiningOptions": f"""
        train_file={{inputs}}/pairs.tsv output_file={{out}}/triplets.jsonl
        teacher={{inputs}}/rte max_share=1.0 max_seq_length={LENGTH}
    """,
    "data_prep.make_demo_data:DemoOptions": """
        output_dir={out}/demo num_stories=3 num_task_examples=60
    """,
    "data_prep.create_pretraining_data:CreatePretrainingDataOptions": f"""
        input_file={{inputs}}/text.txt output_file={{out}}/train.tfrecord
        spm_model_file={{inputs}}/spm.model max_seq_length={LENGTH}
        max_predictions_per_seq={PREDICTIONS} dupe_factor=1 num_workers=1
    """,
}
COMMANDS: dict[str, dict[str, object]] = {
    name: dict(word.split("=", 1) for word in words.split())
    for name, words in _COMMANDS.items()
}
# Their short names, such as `predict`.
SHORT = {name.split(":")[0].split(".")[1]: name for name in COMMANDS}


def load(name: str) -> tuple[object, type]:
    module_name, options_name = name.split(":")
    module = importlib.import_module(module_name)
    return module.run, getattr(module, options_name)


@dataclasses.dataclass(frozen=True)
class Workspace:
    """A folder for one command; nothing in it may change but `out`."""

    root: pathlib.Path
    inputs: pathlib.Path

    def make(self) -> None:
        for name in ("here", "out", "home", "temp", "beside"):
            (self.root / name).mkdir()
        (self.root / "beside" / "precious.txt").write_text("precious")
        here = self.here
        (here / "folder").mkdir()
        (here / "a file").write_text("This is a text.\n")
        (here / "empty").write_bytes(b"")
        (here / "loop").symlink_to("loop")
        (here / "dangling").symlink_to("nowhere")
        (here / "zero").symlink_to("/dev/zero")
        (here / "full").symlink_to("/dev/full")
        os.mkfifo(here / "pipe")

    def place(self, copies, files) -> None:
        """`files`: name to content, or to a function of that before."""
        for name in copies:
            source = self.inputs / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, self.here / source.name)
        for name, content in files.items():
            path = self.here / name
            path.parent.mkdir(parents=True, exist_ok=True)
            is_change = callable(content)
            path.write_bytes(
                content(path.read_bytes()) if is_change else content
            )

    @property
    def here(self) -> pathlib.Path:
        return self.root / "here"

    @property
    def out(self) -> pathlib.Path:
        return self.root / "out"

    def flags(self, name: str, changes: dict[str, object]) -> list[str]:
        values = {**COMMANDS[name], **changes}
        return [
            f"--{key}={self.fill(value)}"
            for key, value in values.items()
            if value is not None
        ]

    def fill(self, value: object) -> str:
        text = str(value)
        for key, path in (
            ("{inputs}", self.inputs),
            ("{here}", self.here),
            ("{out}", self.out),
        ):
            text = text.replace(key, str(path))
        return text

    def environment(self) -> dict[str, str]:
        folder = str(self.root)
        return {"HOME": f"{folder}/home", "TMPDIR": f"{folder}/temp"}

    def enter(self, monkeypatch) -> None:
        monkeypatch.chdir(self.here)
        for key, value in self.environment().items():
            monkeypatch.setenv(key, value)
        monkeypatch.setattr(tempfile, "tempdir", None)

    def surroundings(self) -> dict[str, tuple]:
        """What AutoGraph writes is removed when the process ends."""
        found = snapshot(self.root)
        return {
            path: facts
            for path, facts in found.items()
            if not path.startswith(("out", "temp/__autograph_generated"))
        } | {f"inputs/{k}": v for k, v in snapshot(self.inputs).items()}


def snapshot(folder: pathlib.Path) -> dict[str, tuple]:
    found = {}
    for path in folder.rglob("*"):
        facts = path.lstat()
        is_folder = stat.S_ISDIR(facts.st_mode)
        found[str(path.relative_to(folder))] = (
            facts.st_mode,
            *(() if is_folder else (facts.st_size, facts.st_mtime_ns)),
        )
    return found


@dataclasses.dataclass(frozen=True)
class Done:
    status: int
    said: str


def run_inside(name: str, flags: list[str], capfd) -> Done:
    capfd.readouterr()
    try:
        status = options.run_inside(*load(name), flags)
    except SystemExit as left:
        status = left.code or 0
    return Done(status, capfd.readouterr().err)


# What a program that is still writing has in its folder.
UNFINISHED = (".partial", ".old", ".tmp", "_temp", ".tempstate")
# What may stay after a failure: work that a restart continues.
KEPT = ("*.work/*",)


def check(
    done: Done,
    workspace: Workspace,
    before: dict[str, tuple],
    says: tuple[str, ...] = (),
    leaves: tuple[str, ...] = (),
) -> None:
    """`leaves`: patterns of files that may stay after a failure, too."""
    assert done.status in STATUSES, done
    assert "Traceback" not in done.said, done.said
    errors = [x for x in done.said.splitlines() if x.startswith("error: ")]
    assert len(errors) == (done.status in (1, 2)), done.said
    for word in says:
        assert done.status in (1, 2), f"status {done.status}, no {word!r}"
        message = done.said[done.said.index("error: ") :]
        assert word in message, f"no {word!r} in: {message}"
    now = workspace.surroundings()
    changed = [k for k in {**before, **now} if before.get(k) != now.get(k)]
    assert not changed, f"changed: {changed}; {done.said}"
    left = [path for path in workspace.out.rglob("*") if not path.is_dir()]
    assert not [p for p in left if str(p).endswith(UNFINISHED)]
    if done.status:
        lost = [p for p in left if not any(map(p.match, (*KEPT, *leaves)))]
        assert not lost, f"left: {lost}; {done.said}"
