r"""Teach a small encoder to give the vectors that a large one gives.

    python -m albert_tf.distill \
        --flagfile=configs/distillation/vectors.flags \
        --teacher=all-MiniLM-L6-v2 --train_file=sentences.txt \
        --dev_file=sts_dev.tsv --max_score=5 \
        --vocab_file=albert_small_en --output_dir=runs/student

The training file is plain text, one sentence a line, in any number: it needs
no labels. The teacher is asked once for each; its vectors are kept in
--cached_dir, where other students with the same text find them. The result is a
run as those of run_embeddings. Started again with the same options, it goes on
from the last checkpoint of --output_dir. See docs/distillation.md.
"""

import dataclasses
import functools
from typing import Any

from albert_tf.common import configs, errors, imports, options, ranges
from albert_tf.common.options import checked, option, shown
from albert_tf.finetuning import finetuning_options
from albert_tf.model.config import TEXT_POOLINGS
from albert_tf.tasks.embedding import data
from albert_tf.tasks.embedding.task import (
    NAME,
    EmbeddingOptions,
    EmbeddingTask,
    VectorFacts,
)

finetune = imports.later("albert_tf.finetuning.finetune")
fact_sources = imports.later("albert_tf.finetuning.fact_sources")
teacher_signal = imports.later("albert_tf.finetuning.teacher_signal")
teacher_vectors = imports.later("albert_tf.finetuning.teacher_vectors")
distillation = imports.later("albert_tf.model.losses.distillation")
masked_words = imports.later("albert_tf.model.losses.masked_words")


@dataclasses.dataclass(frozen=True, kw_only=True)
@checked
@shown(
    Model="teacher teacher_vectors teacher_pooling",
    Data="train_file dev_file task_name",
)
class DistillOptions(finetuning_options.FileOptions):
    """Options of distill."""

    teacher: str | None = option(
        None,
        "A run of run_embeddings or distill, any checkpoint of an ALBERT, a "
        "BERT or their like (docs/checkpoints.md) with config and vocabulary "
        "beside it, a SavedModel of vectors, or a folder "
        "teacher-embedding-... of an earlier run, with the same text.",
        must_exist=True,
        names=configs.checkpoint_names,
    )
    teacher_vectors: str | None = option(
        None,
        "NumPy files of vectors from any other teacher, a row for each text of "
        "--train_file, in order. Several, separated by commas, are learnt side "
        "by side. --teacher then gives word embeddings and states alone.",
    )
    teacher_dimensions: int | None = option(
        None,
        "Reduce the teacher's vectors to this width before they are learnt, by "
        "their first singular vectors.",
        within=ranges.Range(1, 2**14),
    )
    train_file: str | None = option(
        None,
        "Text for --do_train, one sentence a line; or TSV, CSV or JSON lines "
        "with `text`, and `teacher_text` where the teacher reads another one.",
        may_change=True,
        must_exist="do_train",
    )
    dev_file: str | None = option(
        None,
        "TSV or JSON lines for --do_eval, as --dev_examples says.",
        may_change=True,
        must_exist="do_eval",
    )
    teacher_pooling: str | None = option(
        None,
        "How a teacher that is no run of run_embeddings makes one vector of "
        "those of its tokens. Default: as its folder of sentence-transformers "
        "says, else mean.",
        choices=TEXT_POOLINGS,
        needs="teacher",
    )
    similarity_weight: float = option(
        10.0,
        "Factor of the second loss, the difference of the cosines within a "
        "batch; the first one is the distance from the teacher's vector.",
        within=ranges.Range(0, 1e6),
    )
    order_weight: float = option(
        0.0,
        "Factor of a loss of pairs of texts that are in another order of "
        "similarity than the teacher's, or nearly. Try a tenth of "
        "--similarity_weight.",
        within=ranges.Range(0, 1e6),
    )
    hidden_weight: float = option(
        0.0,
        "Factor of a loss: how far the states of single tokens are from "
        "the teacher's, which is asked in every update. The vocabulary has to "
        "be the teacher's.",
        within=ranges.Range(0, 1e6),
        needs="teacher",
    )
    relation_weight: float = option(
        0.0,
        "As --hidden_weight, of the relations between tokens in the last "
        "layer: queries, keys and values, as in MiniLM.",
        within=ranges.Range(0, 1e6),
        needs="teacher",
    )
    masked_words_weight: float = option(
        0.0,
        "Factor of a loss of masked words, on a masked copy of each batch. The "
        "run keeps the head: export it by --task=pretraining.",
        within=ranges.Range(0, 1e6),
    )
    word_embeddings: str = option(
        "teacher",
        "Where those of a new student come from. teacher: from the teacher's, "
        "by the pieces' text if the vocabulary is another, and by the first "
        "singular vectors if they are wider; without --teacher random.",
        choices=("teacher", "random"),
    )
    task_name: str = option(NAME, "The only one.", choices=(NAME,))
    vectors: EmbeddingOptions = EmbeddingOptions(
        train_examples=data.TEXTS, dev_examples=data.SCORED
    )

    def __post_init__(self) -> None:
        if not (self.teacher or self.teacher_vectors):
            raise errors.UserError(
                "`teacher` and `teacher_vectors` are missing. Give one of them."
            )
        if (self.teacher and self.teacher_vectors) and not (
            self.copies_embeddings or self.hidden_weight or self.relation_weight
        ):
            raise errors.UserError(
                "`teacher` has no use beside `teacher_vectors` here: neither "
                "its word embeddings nor its states are learnt. Leave it out."
            )
        if self.vectors.train_examples != data.TEXTS:
            raise errors.UserError(
                f"`train_examples={self.vectors.train_examples}` is for "
                "run_embeddings; distill learns from single texts. Leave it "
                "out."
            )
        if self.finetuning.exit_layers:
            for name in (
                "hidden_weight",
                "relation_weight",
                "masked_words_weight",
            ):
                if getattr(self, name):
                    raise errors.UserError(
                        f"`{name}={getattr(self, name)}` is about the last "
                        "layer alone, so it does not go with `exit_layers`. "
                        "Leave one of the two out."
                    )

    @property
    def copies_embeddings(self) -> bool:
        """Whether the student's word embeddings start from the teacher's."""
        return (
            self.teacher is not None
            and self.word_embeddings == "teacher"
            and not self.finetuning.init.init_checkpoint
        )


def run(settings: DistillOptions) -> None:
    """Finetune a student on the vectors that a teacher gives for each text."""
    given = None
    if settings.teacher_vectors:
        given = teacher_vectors.FileVectors(settings.teacher_vectors)
    teacher = teacher_signal.VectorInfo(0)
    if settings.teacher:
        teacher = teacher_signal.describe_vectors(settings.teacher)
    shared, vectors = settings.finetuning, settings.vectors
    size = _projection_size(settings, given.width if given else teacher.width)
    tokenizer = finetuning_options.load_tokenizer(shared)
    make_task = functools.partial(
        EmbeddingTask, tokenizer, shared.max_seq_length
    )
    of_teacher = dataclasses.replace(vectors, prompting=teacher.prompting)
    facts = EmbeddingTask.find_facts(
        vectors, fact_sources.RunSource(EmbeddingTask, shared, {})
    )
    teacher_facts = VectorFacts(
        text_pooling=settings.teacher_pooling or teacher.text_pooling,
        projection_size=teacher.projection_size,
    )
    pair_weights = {"similarity_loss": settings.similarity_weight}
    if settings.order_weight:
        pair_weights["order_loss"] = settings.order_weight
    weights = {
        "hidden_loss": settings.hidden_weight,
        "relation_loss": settings.relation_weight,
    }
    weights = {name: weight for name, weight in weights.items() if weight}
    signal: Any = teacher_signal.TeacherSignal(
        settings.teacher,
        vectors=given,
        dimensions=settings.teacher_dimensions,
        objective=lambda *_: distillation.vectors(
            pair_weights,
            vectors.prefixes,
            state_weights=weights,
            teacher_model=signal.model,
            masked_weight=settings.masked_words_weight,
            tokenizer=tokenizer,
        ),
        default_task=make_task(of_teacher, teacher_facts),
        copies_embeddings=settings.copies_embeddings,
        uses_states=bool(weights),
    )
    task = make_task(vectors, dataclasses.replace(facts, projection_size=size))
    if settings.masked_words_weight:
        task.num_predictions = masked_words.count(shared.max_seq_length)
        task.sequences_at_once = max(2, task.sequences_at_once)  # A copy.
    finetune.run(
        "distill", settings, settings.sources, task=task, signal=signal
    )


def _projection_size(settings: DistillOptions, width: int) -> int:
    """Return the `projection_size` that gives vectors as wide as the teacher's.

    `width` is that of the teacher's vectors before they are reduced.
    """
    reduced = settings.teacher_dimensions
    if reduced and reduced > width:
        raise errors.UserError(
            f"`teacher_dimensions={reduced}` is more than the width of the "
            f"teacher's vectors, {width}. Use at most that."
        )
    width = reduced or width
    hidden_size = settings.finetuning.read_config().hidden_size
    size = settings.vectors.projection_size
    if size is None:
        size = 0 if hidden_size == width else width
    if (size or hidden_size) != width:
        raise errors.UserError(
            f"`projection_size={size}` does not give the width of the "
            f"teacher's vectors, {width}. Leave it out, or reduce them with "
            "`teacher_dimensions`."
        )
    return size


if __name__ == "__main__":
    options.run_script(run, DistillOptions)
