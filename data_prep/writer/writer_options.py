"""The options of create_pretraining_data.py, and their checks."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from absl import logging

from albert_tf.common import errors, options, ranges, shared_options
from albert_tf.data import layouts, manifests, masking
from albert_tf.text import tokenization
from data_prep.writer import (
    corpus,
    output_files,
    segment_pairs,
    token_blocks,
    units,
    word_starts,
)

# A warning is given if more than this share of the tokens, and more than this
# number of tokens of each instance, are cut off.
_USUAL_SHARE_CUT, _USUAL_TOKENS_CUT = 0.05, 32


@dataclasses.dataclass(frozen=True)
@options.checked
@options.shown(
    Data="random_seed dupe_factor records cross_documents masking_time "
    "phrase_file entity_file",
    Devices="num_workers dask_scheduler",
    Output="output_file num_shards overwrite",
)
class CreatePretrainingDataOptions:
    """Options of this script; the names are the original's."""

    text: corpus.CorpusOptions
    output_file: str = options.option(
        help="TFRecord files to write, separated by commas, or one name for "
        "--num_shards files. Files with names that end in .gz are packed."
    )
    num_shards: int | None = options.option(
        None,
        "Files to divide the records among: NAME-00000-of-00008 and so on.",
        within=ranges.Range(1, 10**5 - 1),
    )
    random_seed: int = options.option(
        12345, "Seed of every random draw.", within=ranges.WRITER_SEED
    )
    dupe_factor: int = options.option(
        40,
        "Passes over the corpus, each with different pairs and masks.",
        within=ranges.Range(1, 10**4),
        needs="records=instances",
    )
    records: str = options.option(
        "instances",
        "instances: [CLS] A [SEP] B [SEP], as in the original. passages: text "
        "alone, from which run_pretraining --records=passages draws segments, "
        "labels and masks in every epoch; sentences are packed as long as they "
        "fit.",
        choices=layouts.KINDS,
    )
    cross_documents: bool = options.option(
        False,
        "Whether a passage goes on behind the end of a document, after a "
        "[SEP]: RoBERTa's FULL-SENTENCES. Without it: DOC-SENTENCES.",
        needs="records=passages",
    )
    masking_time: str = options.option(
        "writing",
        "writing: records hold masks, as in the original. training: they hold "
        "none; run_pretraining draws new masks in every epoch "
        "(--masked_lm_budget), so --dupe_factor=1 is enough.",
        choices=("writing", "training"),
        needs="records=instances",
    )
    word_start_rule: str | None = options.option(
        None,
        "Which pieces start a word. english: the original's rule, for text of "
        "the letters a to z. marker: those with SentencePiece's mark, for "
        "other alphabets; in scripts without spaces, such as Chinese, every "
        "piece. wordpiece: those without ##. Default: chosen by the text.",
        choices=tuple(masking.WORD_START_RULES),
        needs=f"word_segmenter={word_starts.NONE}",
    )
    word_segmenter: str = options.option(
        word_starts.NONE,
        "Package that finds words in text without spaces, for masks of whole "
        "words: jieba (Chinese), mecab (Japanese; fugashi with unidic-lite). "
        "They are extras. none: words start by --word_start_rule.",
        choices=word_starts.SEGMENTERS,
    )
    phrase_file: str | None = options.option(
        None,
        "File of phrases, one a line, that --records=passages marks in the "
        "text, the longest first, for ERNIE's --mask_levels. With a word "
        "segmenter its words are phrases already.",
        needs="records=passages",
    )
    entity_file: str | None = options.option(
        None,
        "The same for entities: names of people, places and so on.",
        needs="records=passages",
    )
    drop_duplicates: bool = options.option(
        False, "Leave out documents that equal an earlier one."
    )
    num_workers: int = shared_options.num_workers()
    dask_scheduler: str | None = options.option(
        None,
        "HOST:PORT of a Dask scheduler whose workers do the work instead of "
        "processes here. All machines need the same folders: docs/clusters.md",
    )
    overwrite: bool = options.option(
        False, "Replace outputs that were written with other options."
    )
    vocabulary: tokenization.VocabularyOptions = (
        tokenization.VocabularyOptions()
    )
    pairs: segment_pairs.PairOptions = options.part(
        segment_pairs.PairOptions(),
        needs="records=instances",
        but=("max_seq_length",),
    )
    masks: masking.MaskingOptions = options.part(
        masking.MaskingOptions(), needs="records=instances"
    )

    def __post_init__(self) -> None:
        self.vocabulary.require()
        if self.records == "instances" and (
            self.text.input_format == "dialogues"
        ):
            raise options.unused_option_error(
                "input_format", self.text.input_format, "records=passages"
            )
        if self.dask_scheduler == "":
            raise errors.UserError(
                "`dask_scheduler=` is empty. Give HOST:PORT, or leave the "
                "option out to work on this machine."
            )
        if self.dask_scheduler and self.num_workers:
            raise errors.UserError(
                f"`num_workers={self.num_workers}` and `dask_scheduler` are "
                "both given. The cluster decides how many processes there are: "
                "leave out one of them."
            )

    @property
    def unit_files(self) -> dict[str, str]:
        """The files of phrases and entities, by their option."""
        named = ((name, getattr(self, name)) for name in units.OPTIONS)
        return {name: path for name, path in named if path is not None}

    @property
    def passes(self) -> int:
        """Passes over the text; further ones would give the same passages."""
        return self.dupe_factor if self.records == "instances" else 1

    @property
    def writes_masks(self) -> bool:
        return self.records == "instances" and self.masking_time == "writing"

    @property
    def layout(self) -> layouts.Layout:
        if self.records == "passages":
            return layouts.passage_layout(self.pairs.max_seq_length)
        layout = layouts.pretraining_layout(
            self.pairs.max_seq_length, self.masks.record_predictions
        )
        if self.masking_time == "training":
            layout = layouts.without_masks(layout)
        return layout


class Prepared(NamedTuple):
    """Files and vocabulary of a writer."""

    inputs: list[str]  # In corpus order.
    outputs: list[str]
    tokenizer: tokenization.AnyTokenizer
    marking: token_blocks.Marking | None = None  # Of passages.


def prepare(settings: CreatePretrainingDataOptions) -> Prepared:
    """Find the files and load the vocabulary; warn of unusual options."""
    outputs = output_files.split(settings.output_file, settings.num_shards)
    inputs = corpus.find_files(settings.text)
    output_files.check(settings, outputs)
    _warn_of_options(settings)
    if settings.word_segmenter != word_starts.NONE:
        word_starts.load(settings.word_segmenter)
    marking = None
    if settings.records == "passages":
        unit_files = settings.unit_files.items()
        marking = token_blocks.Marking(
            {units.OPTIONS[n]: units.read(path, n) for n, path in unit_files},
            speakers=settings.text.input_format == "dialogues",
        )
    tokenizer = tokenization.load(settings.vocabulary)
    word_starts.check_rule(settings.word_start_rule, tokenizer)
    if settings.records == "passages" and tokenizer.pad_id != 0:
        raise errors.UserError(
            "`records=passages` needs a vocabulary whose id 0 is padding; here "
            f"it is {tokenizer.pieces[0]!r}. Choose another vocabulary, or "
            "`records=instances`."
        )
    return Prepared(inputs, outputs, tokenizer, marking)


def _warn_of_options(settings: CreatePretrainingDataOptions) -> None:
    """Warn of options that are allowed but probably a mistake."""
    default = options.to_dict(masking.MaskingOptions())
    values = options.to_dict(settings.masks)
    unused = [f"--{k}={v}" for k, v in values.items() if v != default[k]]
    if unused and settings.masking_time == "training":
        logging.warning(
            "%s: not used, because with --masking_time=training "
            "run_pretraining draws the masks. Give it there.",
            ", ".join(unused),
        )
    if not settings.writes_masks:
        return
    name = "max_predictions_per_seq"
    full = round(settings.pairs.max_seq_length * settings.masks.masked_lm_prob)
    if not full <= values[name] <= max(full, default[name]):
        logging.warning(
            "--max_predictions_per_seq=%d: at --max_seq_length=%d and "
            "--masked_lm_prob=%g a full sequence has %d predictions. More are "
            "never used, and fewer limit masking. Use "
            "--max_predictions_per_seq=%d. (The original's default is 20.)",
            values[name],
            settings.pairs.max_seq_length,
            settings.masks.masked_lm_prob,
            full,
            full,
        )


def warn_of_cuts(manifest: manifests.Manifest) -> None:
    """Warn if much of the text is cut off.

    A sequence is filled with whole sentences until it is full, and the last
    sentence is cut by half of it on average: 17 tokens of English Wikipedia,
    13 % at `max_seq_length` 128 and 3 % at 512. The next pass cuts elsewhere.
    Of very long sentences more is lost.
    """
    rate = manifest.summary["share_of_tokens_cut"]
    each = manifest.corpus["tokens_cut"] / max(1, manifest.summary["instances"])
    if rate > _USUAL_SHARE_CUT and each > _USUAL_TOKENS_CUT:
        logging.warning(
            "--max_seq_length=%d cuts off %.1f %% of the tokens, %.0f of each "
            "instance; 10 to 20 are usual. Each line of the input should be a "
            "sentence. Divide longer lines with data_prep/split_sentences.py, "
            "or use longer sequences.",
            manifest.max_seq_length,
            100 * rate,
            each,
        )


def require_instances(
    num_outputs: int,
    num_instances: int,
    counts: Mapping[str, int],
    settings: CreatePretrainingDataOptions,
) -> None:
    """Make sure that every output gets a record."""
    if num_instances >= num_outputs:
        return
    details = "".join(
        f"; {name.replace('_', ' ')}: {counts[name]:,}"
        for name in ("documents", "unused_documents", "unused_chunks")
    )
    raise errors.UserError(
        f"--output_file names {num_outputs} files, but the text gives only "
        f"{num_instances} {settings.records} in {settings.passes} pass(es)"
        f"{details}. Every file needs one, and an instance needs two sentences "
        "or one of several words (--single_segment_policy="
        f"{settings.pairs.single_segment_policy}). Name fewer files, or give "
        "more text."
    )
