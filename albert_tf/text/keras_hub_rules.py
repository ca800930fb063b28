"""The JSON files of KerasHub's presets: what they say of how text is cut.

Keys that change outputs are read; what is not computed here is refused by name.

Source: keras-hub 0.32.0, AlbertTokenizer, BertTokenizer and their bases.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.common import errors, files, strict_json

TOKENIZER_NAME = "tokenizer.json"
# By the option that names them.
VOCABULARY_NAMES = {
    "spm_model_file": "assets/tokenizer/vocabulary.spm",
    "vocab_file": "assets/tokenizer/vocabulary.txt",
}
ADVICE = "Copy or download the folder again."
# The values of a key that are computed; None: all.
Allowed = Mapping[str, Sequence[Any] | None]
_ANY: Allowed = dict.fromkeys(("name", "trainable", "dtype", "config_file"))
_TOKENIZERS: dict[str, Allowed] = {
    "AlbertTokenizer": {
        **dict.fromkeys(("proto", "sequence_length"), [None]),
        **dict.fromkeys(("add_bos", "add_eos"), [False]),
    },
    "BertTokenizer": {
        **dict.fromkeys(("vocabulary", "sequence_length"), [None]),
        **dict.fromkeys(("lowercase", "strip_accents"), (True, False)),
        **{"split": [True], "special_tokens_in_strings": [False]},
        **{"suffix_indicator": ["##"], "oov_token": ["[UNK]"]},
        "special_tokens": [None],
    },
}
_LONGEST_WORD = 100  # Of WordPiece, there in bytes.


def is_config(values: Mapping[str, Any]) -> bool:
    """Tell whether a JSON file describes an object of Keras."""
    return {"class_name", "config"} <= values.keys()


def arguments(
    values: Mapping[str, Any], source: str, classes: Mapping[str, Allowed]
) -> tuple[str, dict[str, Any]]:
    """Return the class that a JSON file of Keras names, and its arguments.

    Args:
        source: What messages call the file.
        classes: What may be in the file.
    """
    name, config = values.get("class_name"), values.get("config")
    if name not in [*classes] or not isinstance(config, dict):
        raise errors.UserError(
            f"{source} has class_name={strict_json.brief(name)} with config="
            f"{strict_json.brief(config)}. Of KerasHub's presets those with "
            f"{' and '.join(classes)} are read; choose one."
        )
    allowed = {**_ANY, **classes[str(name)]}
    for key, value in config.items():
        if key == "dtype" and isinstance(value, dict):
            policy = value.get("config")
            value = policy.get("name") if isinstance(policy, dict) else value
        some = allowed.get(key, ())
        if some is not None and repr(value) not in map(repr, some):
            raise errors.UserError(
                f"{source} has {key}={strict_json.brief(value)}, which this "
                "project does not compute. Choose another preset."
            )
    return str(name), config


def paths_beside(vocabulary: str) -> list[str]:
    """Return the `tokenizer.json` of the preset that a vocabulary is in."""
    return [
        vocabulary.removesuffix(name) + TOKENIZER_NAME
        for name in VOCABULARY_NAMES.values()
        if f"/{vocabulary}".endswith(f"/{name}")
    ]


def settings_beside(vocabulary: str, *, is_words: bool) -> dict[str, Any]:
    """Return arguments of `normalization.Normalization`; none of no preset.

    SentencePiece texts are given to the model as they are. Here they are
    composed before, which its table does, too.
    """
    paths = paths_beside(vocabulary)
    if not paths:
        return {}
    path = paths[0]
    name = "BertTokenizer" if is_words else "AlbertTokenizer"
    if not files.exists(path):
        raise errors.UserError(f"{path} does not exist. {ADVICE}")
    values = strict_json.read_object(path, ADVICE)
    _, config = arguments(values, path, {name: _TOKENIZERS[name]})
    lower, strips = (
        config.get(key, False) for key in ("lowercase", "strip_accents")
    )
    if strips and not lower:
        raise errors.UserError(
            f"{path} has strip_accents without lowercase, which this project "
            "does not compute. Choose another preset."
        )
    longest = {"longest_word": _LONGEST_WORD} if is_words else {}
    return {"do_lower_case": lower, "keep_accents": not strips, **longest}
