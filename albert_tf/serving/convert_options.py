"""Options of convert_checkpoint; imports no TensorFlow."""

import dataclasses

from albert_tf.common import configs, shared_options
from albert_tf.common.options import checked, option, shown
from albert_tf.model.config import TEXT_POOLINGS
from albert_tf.text import tokenization

SENTENCES = "sentence_transformers"
# Folders, with the tokenizer.
HUB_FORMATS = ("huggingface", SENTENCES)
KERAS = "keras_hub"
# Folders of this project with rounded weights.
SMALL_FORMATS = ("bfloat16", "int8")


@dataclasses.dataclass(frozen=True)
@checked
@shown(
    Model="from_ to albert_config_file",
    Data="task_module new_vocab_file keep_pieces_of",
    Output="format onnx overwrite",
)
class ConvertOptions:
    """Options of convert_checkpoint."""

    from_: str = option(
        help="Checkpoint to read: all that --init_checkpoint accepts.",
        positional=True,
        must_exist=True,
        names=configs.checkpoint_names,
    )
    to: str = option(
        help="Prefix to write, such as FOLDER/model.ckpt-best, or for a format "
        "other than tf1 and tf2 a folder. An albert_config.json is written "
        "beside a prefix."
    )
    format: str = option(
        help="tf1: variables by name, as the original release has them. tf2: "
        "a checkpoint of this project. huggingface: a folder that transformers "
        "uses, with tokenizer and model card; it needs the vocabulary. "
        "sentence_transformers: the same, and sentence-transformers makes "
        "vectors of texts with it. keras_hub: encoder and tokenizer for "
        "KerasHub. bfloat16, int8: a folder of this project with the weights "
        "rounded, in half the space or a quarter.",
        choices=("tf1", "tf2", *HUB_FORMATS, KERAS, *SMALL_FORMATS),
    )
    text_pooling: str | None = option(
        None,
        "sentence_transformers: how the vectors of the tokens become that of "
        "the text. Default: as --from says, a run or such a folder, else mean.",
        choices=TEXT_POOLINGS,
        needs=f"format={SENTENCES}",
    )
    albert_config_file: str | None = option(
        None,
        "JSON file with the architecture. Default: albert_config.json or "
        "config.json beside the checkpoint.",
        must_exist=True,
        names=configs.config_names,
    )
    # Hugging Face needs it. Without one: the only one beside the checkpoint.
    vocabulary: tokenization.VocabularyOptions = (
        tokenization.VocabularyOptions()
    )
    new_vocab_file: str | None = option(
        None,
        "Another vocabulary for the model, a WordPiece list or a SentencePiece "
        "model: a piece that it had keeps its row, a new one gets the mean row "
        "of the old pieces of its text.",
        must_exist=True,
    )
    keep_pieces_of: str | None = option(
        None,
        "Text file. Pieces that no line of it has are dropped from the "
        "vocabulary, except special pieces and single letters.",
        must_exist=True,
    )
    task_module: str | None = option(
        None, "The --task_module of the run in --from, if it had one."
    )
    onnx: bool = option(
        False,
        "Whether the folder also gets the network as onnx/model.onnx and, in 8 "
        "bits, onnx/model_quantized.onnx, for transformers.js in browsers.",
        needs=f"format={'|'.join(HUB_FORMATS)}",
    )
    overwrite: bool = shared_options.overwrite("--to")

    @property
    def changes_vocabulary(self) -> bool:
        return bool(self.new_vocab_file or self.keep_pieces_of)
