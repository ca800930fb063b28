"""Options of export; imports no TensorFlow."""

import dataclasses

from albert_tf.common import errors, ranges, shared_options
from albert_tf.common.options import checked, option, shown
from albert_tf.serving import source_options

SAVED_MODEL = "saved_model"
# What each format can compute in.
_PRECISIONS = {
    SAVED_MODEL: ("float32", "bfloat16"),
    "litert": ("float32", "int8"),
    "mediapipe": ("float32", "int8"),
    "onnx": ("float32", "int8", "int8_weights"),
}


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Data="eval_file calibration_file",
    Devices="precision",
    Output="export_dir format with_text adaptive patience entropy overwrite",
)
class ExportOptions:
    """Options of export."""

    source: source_options.SourceOptions
    export_dir: str = option(help="Folder to write.")
    format: str = option(
        SAVED_MODEL,
        "saved_model: text or ids in. litert, onnx: ids in, for LiteRT and "
        "ONNX Runtime, with answer.py, which takes text. mediapipe: LiteRT "
        "with the tokenizer in the file, for apps with MediaPipe.",
        choices=tuple(_PRECISIONS),
    )
    precision: str = option(
        "float32",
        "What is computed in. bfloat16 (saved_model): half the size, faster "
        "where the processor has it. int8 (the other formats): a quarter. "
        "int8_weights (onnx): a quarter, too, but computed in float32, so an "
        "int8 checkpoint gives the same numbers.",
        choices=("float32", "bfloat16", "int8", "int8_weights"),
    )
    with_text: bool = option(
        True,
        "Whether the SavedModel takes text, too. Without, it needs no "
        "tensorflow_text, whose operations some servers lack.",
        needs=f"format={SAVED_MODEL}",
    )
    eval_file: str | None = option(
        None,
        "A labelled file of the finetuned task: the score of the export is "
        "compared with that of the model in float32.",
        needs=f"format={SAVED_MODEL}|litert|onnx",
    )
    calibration_file: str | None = option(
        None,
        "--format=onnx --precision=int8: a labelled file of the finetuned "
        "task, such as its training file. With 256 of its texts it is measured "
        "which products are to stay in float32.",
        needs=("format=onnx", "precision=int8"),
    )
    adaptive: bool = option(
        False,
        "Whether a classifier stops at the first of the run's --exit_layers "
        "where its answer is sure, by --patience or --entropy; `layers` says "
        "how many were used. For --format=saved_model and onnx.",
        needs=f"format={SAVED_MODEL}|onnx",
    )
    patience: int | None = option(
        None,
        "--adaptive: sure is what so many exits in a row say as the one "
        "before.",
        within=ranges.Range(1, 1000),
        needs="adaptive",
    )
    entropy: float | None = option(
        None,
        "--adaptive: sure is what has at most this share of the largest "
        "possible entropy.",
        within=ranges.SHARE,
        needs="adaptive",
    )
    overwrite: bool = shared_options.overwrite("--export_dir")

    @property
    def is_saved_model(self) -> bool:
        return self.format == SAVED_MODEL

    def __post_init__(self) -> None:
        allowed = _PRECISIONS[self.format]
        if self.precision not in allowed:
            raise errors.UserError(
                f"`precision={self.precision}` does not go with "
                f"`format={self.format}`. Allowed are {', '.join(allowed)}."
            )
        if self.adaptive and self.patience is self.entropy is None:
            raise errors.UserError(
                "`adaptive` needs `patience`, `entropy` or both: when an "
                "answer is sure."
            )
