"""Load the demo's SavedModels with TensorFlow alone and ask them something.

    python tools/ask_saved_models.py demo_output/saved_models

Nothing of this project is imported, and neither Keras nor SentencePiece can be:
what is printed comes out of the SavedModel folders.
"""

import sys

for name in ("albert_tf", "data_prep", "tf_keras", "keras", "sentencepiece"):
    sys.modules[name] = None  # type: ignore[assignment]  # Import now fails.

import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402, F401 - registers the tokenizer's ops.

MASKED = [
    "In spring at the mill Mara gave Ivo the [MASK].",
    "In autumn at the [MASK] Nora traded flour for bread.",
    "In summer at the mill Leo slept. In summer at the [MASK] Leo slept.",
]
PREMISE = (
    "In spring at the mill Mara gave Ivo the lamp. "
    "In summer at the bakery Ivo traded flour for bread."
)
CLAIMS = [
    "The lamp went to Ivo.",
    "The lamp went to Nora.",
    "It was summer when Ivo made a bargain.",
    "It was winter when Ivo made a bargain.",
]


def main(folder: str) -> None:
    """Print the answers of both models."""
    pretrained = tf.saved_model.load(f"{folder}/pretrained")
    answers = pretrained.signatures["fill_mask"](text=tf.constant(MASKED))
    for text, pieces, odds in zip(
        MASKED,
        answers["pieces"].numpy(),
        answers["probabilities"].numpy(),
        strict=True,
    ):
        guesses = (
            f"{piece.decode().removeprefix(chr(0x2581))} {probability:.0%}"
            for piece, probability in zip(pieces[0, :3], odds[0, :3], strict=True)
        )
        print(f"{text}\n    [MASK] is {', '.join(guesses)}")

    classifier = tf.saved_model.load(f"{folder}/rte")
    answers = classifier.signatures["serving_default"](
        text=tf.constant([PREMISE] * len(CLAIMS)),
        text_pair=tf.constant(CLAIMS),
    )
    print(PREMISE)
    for claim, label, odds in zip(
        CLAIMS,
        answers["label"].numpy(),
        answers["probabilities"].numpy(),
        strict=True,
    ):
        print(f"    {claim} -> {label.decode()} ({odds.max():.0%})")


if __name__ == "__main__":
    main(sys.argv[1])
