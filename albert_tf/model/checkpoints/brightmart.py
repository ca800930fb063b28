"""The layout of brightmart's albert_zh: its config files.

These Chinese ALBERTs were published before Google's. They project words to the
hidden width first, then add segments and positions and normalize
(`project_words_first`). All layers share their parameters, which
have the names of BERT under `layer_shared`, see bert.py.

Source: github.com/brightmart/albert_zh, modeling.py and run_pretraining.py.
"""

from collections.abc import Mapping
from typing import Any

from albert_tf.common import errors
from albert_tf.model.checkpoints import bert

# The variable that only this layout has: [E, H].
PROJECTION = "bert/embeddings/word_embeddings_2"


def describes_albert(values: Mapping[str, Any]) -> bool:
    """Tell whether the content of a JSON file is such a config.

    It is BERT's with two more keys, the second of them since October 2019.
    """
    return "ln_type" in values or {"directionality", "embedding_size"} <= set(
        values
    )


def translate_config(values: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the values of such a config under our keys."""
    if values.get("ln_type") not in (None, "postln"):
        raise errors.UserError(
            f"{path} has ln_type={values['ln_type']!r}: this model of "
            "brightmart's albert_zh normalizes before attention and "
            "feed-forward, which this project does not compute. Choose one "
            "with postln (tiny, base, large), or one of Google's Chinese "
            "models, such as albert_xlarge_zh."
        )
    return {**bert.keys_of_network(values), "project_words_first": True}
