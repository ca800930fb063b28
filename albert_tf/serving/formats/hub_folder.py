"""A folder that transformers uses: weights, tokenizer and model card.

config.json, model.safetensors  see model/checkpoints/huggingface.py
tokenizer.json                  how text is cut, see text/tokenizer_json.py
tokenizer_config.json, special_tokens_map.json
spiece.model (or vocab.txt)     the vocabulary, for this project, with its
                                normalization
README.md                       the model card, see model_card.py
onnx/                           the network, see onnx_model.py, if wished

For sentence-transformers it has the files of sentence_modules.py, too.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from absl import logging

from albert_tf.common import errors, files, strict_json
from albert_tf.finetuning import base
from albert_tf.model.checkpoints import (
    config_files,
    huggingface,
    keras_hub,
    layouts,
    sentence_modules,
)
from albert_tf.model.config import AlbertConfig
from albert_tf.serving.formats import model_card, onnx_model
from albert_tf.text import (
    huggingface_rules,
    normalization,
    tokenization,
    tokenizer_check,
    tokenizer_json,
)

TOKENIZER_NAME = "tokenizer.json"
# The vocabulary's name in the folder, by the option that names it.
VOCABULARY_NAMES = {
    "spm_model_file": huggingface.VOCABULARY_NAME,
    "vocab_file": "vocab.txt",
}
_TOKENIZER_CONFIG_NAME = "tokenizer_config.json"
_SPECIAL_NAME = "special_tokens_map.json"
# What is written; of the vocabularies one, with its normalization.
NAMES = (
    huggingface.CONFIG_NAME,
    huggingface.WEIGHTS_NAME,
    TOKENIZER_NAME,
    _TOKENIZER_CONFIG_NAME,
    _SPECIAL_NAME,
    model_card.NAME,
    *VOCABULARY_NAMES.values(),
)


@dataclasses.dataclass(frozen=True)
class HubModel:
    """What is written."""

    config: AlbertConfig
    weights: Mapping[str, np.ndarray]  # See `huggingface.files_of`.
    vocabulary: tokenization.VocabularyOptions
    tokenizer: tokenization.AnyTokenizer  # Of this vocabulary.
    details: config_files.Details | None = None
    run_dir: str | None = None
    max_seq_length: int | None = None  # Default: the model's positions.
    # One of `model_card.pipelines()`. Default: the class of transformers.
    shown_as: str | None = None


def paths(folder: str) -> list[str]:
    """Return all paths that are written, or removed with an earlier model.

    Beside another encoder, what sentence-transformers and KerasHub read would
    be wrong.
    """
    names = [
        *dict.fromkeys((*NAMES, *keras_hub.NAMES)),
        *map(normalization.path_beside, VOCABULARY_NAMES.values()),
        *sentence_modules.NAMES,
        sentence_modules.PROMPTS_NAME,
        *onnx_model.NAMES_OF_TRANSFORMERS,
    ]
    return [os.path.join(folder, name) for name in names]


def write(
    folder: str, model: HubModel, more: Callable[[], Mapping[str, bytes]] = dict
) -> None:
    """Write the folder; `more` returns further files by name."""
    tokenizer = model.tokenizer
    if "<s>" in tokenizer.special_pieces:
        raise errors.UserError(
            f"`{model.vocabulary.kind}={model.vocabulary.path}` has <s>, </s> "
            "and <mask>, as MPNet and XLM-R. Such vocabularies are read, but "
            "not written for transformers. Keep this model in a checkpoint of "
            "this project."
        )
    rules = tokenizer_json.make(tokenizer)
    tokenizer_check.check(rules, tokenizer)
    warn_of_numbers(tokenizer)
    config, weights = huggingface.files_of(
        model.config, model.weights, model.details
    )
    config |= {
        "pad_token_id": tokenizer.pad_id,
        "bos_token_id": tokenizer.cls_id,
        "eos_token_id": tokenizer.sep_id,
    }
    shown = config
    if model.shown_as:
        shown = {**config, "architectures": [model.shown_as]}
    length = model.max_seq_length or model.config.max_position_embeddings
    special = tokenizer_json.special_pieces(tokenizer)
    tokenizer_config = {
        # It takes `tokenizer.json` as it is.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": length,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        # For AlbertTokenizer and BertTokenizer, which make rules of their own.
        **tokenizer.normalization.of_classes,
        **special,
    }
    texts = {
        TOKENIZER_NAME: rules,
        _TOKENIZER_CONFIG_NAME: _json(tokenizer_config),
        _SPECIAL_NAME: _json(special),
        model_card.NAME: model_card.text(
            folder, shown, tokenizer, length, model.run_dir
        ),
        huggingface.CONFIG_NAME: _json(config),
    }
    assert model.vocabulary.kind and model.vocabulary.path
    vocabulary = VOCABULARY_NAMES[model.vocabulary.kind]
    described = os.path.basename(normalization.path_beside(vocabulary))
    texts[described] = tokenizer.normalization.to_json()
    contents = {name: text.encode() for name, text in texts.items()}
    contents |= more()
    path = model.vocabulary.path
    contents[vocabulary] = huggingface_rules.content_of(path)
    contents[huggingface.WEIGHTS_NAME] = weights
    models = huggingface.CONFIG_NAME, sentence_modules.MODULES_NAME
    is_replaced = any(files.exists(os.path.join(folder, n)) for n in models)
    write_files(folder, contents, paths(folder) if is_replaced else [])


def write_sentences(
    folder: str,
    model: HubModel,
    modules: sentence_modules.Modules,
    more: Callable[[], Mapping[str, bytes]] = dict,
) -> None:
    """Write a folder that sentence-transformers uses, too.

    Args:
        model: Of its weights only encoder and projection are written. A pooler
            that transformers does not have is left out: nothing reads it.
    """
    config = model.config
    projection, encoder = {}, {}
    for name, value in model.weights.items():
        if name.startswith(f"{sentence_modules.SCOPE}/"):
            projection[name] = value
        elif name.startswith("bert/") and (
            config.pooling == "cls" or not name.startswith(f"{layouts.POOLER}/")
        ):
            encoder[name] = value
    model = dataclasses.replace(
        model,
        config=dataclasses.replace(config, pooling="cls"),
        weights=encoder,
        details=None,
        shown_as=model_card.SENTENCES,
        max_seq_length=modules.max_seq_length,
    )
    steps = sentence_modules.contents(config.hidden_size, modules, projection)
    write(folder, model, lambda: {**steps, **more()})


def write_files(
    folder: str, contents: Mapping[str, bytes], old: Iterable[str]
) -> None:
    """Write files by their names in a folder; see `files.write_together`."""
    for inner in {os.path.dirname(name) for name in contents}:
        files.make_folder(os.path.join(folder, inner), "to")
    files.write_together(
        {os.path.join(folder, n): content for n, content in contents.items()},
        old,
    )


def _json(values: Mapping[str, Any]) -> str:
    return strict_json.dumps(values, indent=2) + "\n"


def details_of(task: base.Task) -> config_files.Details:
    return config_files.Details(
        labels=tuple(task.labels),
        is_regression=task.problem == "number",
        is_multi_label=task.problem == "labels",
        is_choice=task.problem == "choice",
    )


def warn_of_numbers(tokenizer: tokenization.AnyTokenizer) -> None:
    table = getattr(tokenizer, "digit_comma_ids", {})
    pieces = [tokenizer.pieces[id_] for id_ in table]
    inner = [p for p in pieces if not p.startswith(tokenization.WORD_START)]
    if inner:
        logging.warning(
            "The vocabulary has %d pieces like %r, which continue a word and "
            "end in a comma. There, some numbers with commas will have other "
            "ids than here; see docs/checkpoints.md.",
            len(inner),
            inner[0],
        )
