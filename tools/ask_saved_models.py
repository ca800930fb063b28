r"""Ask the demo's SavedModels, with TensorFlow only.

    python tools/ask_saved_models.py demo_output/saved_models \
        tools/sentences.txt

This project, tf_keras and SentencePiece cannot be imported here, so the answers
come from the SavedModel folders alone.
"""

import sys

for name in ("albert_tf", "data_prep", "tf_keras", "official", "sentencepiece"):
    sys.modules[name] = None  # type: ignore[assignment]  # Import now fails.

import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402, F401 - registers the tokenizer's ops.

MASKED = [
    # Between the mill and the harbour lies the bakery.
    "In spring at the mill Mara gave Ivo the ring. In summer at the [MASK] Ivo "
    "came with the cat. In summer at the harbour there was much thunder about.",
    # The fisher works at the harbour.
    "In spring at the bakery Ivo came with the cat. In summer at the harbour "
    "the [MASK] gave Nora fish. In summer at the market Nora slept.",
    # The bakery gives bread for flour.
    "In spring at the mill Mara gave Ivo the ring. In summer at the bakery Ivo "
    "traded [MASK] for bread. In summer at the harbour Ivo and the cat slept.",
]
SENTENCES = [
    "In spring at the mill Ivo traded grain for flour.",
    "In mill at the spring Ivo traded grain for flour.",
    "In winter at the farm Nora and the cat slept.",
    "In Nora at the farm winter and the cat slept.",
]
VERDICTS = {b"0": "not acceptable", b"1": "acceptable"}
# Each has an answer among the sentences, in other words.
QUESTIONS = [
    "How do insects tell each other about food?",
    "Who wrote the first computer software?",
    "Why do cakes and loaves become bigger in the oven?",
    "Why does everything cost more when it is scarce?",
]


def main(folder: str, sentences_file: str) -> None:
    """Print the answers of all models."""
    pretrained = tf.saved_model.load(f"{folder}/pretrained")
    answers = pretrained.signatures["fill_mask"](text=tf.constant(MASKED))
    for text, pieces, odds in zip(
        MASKED,
        answers["pieces"].numpy()[:, 0, :3],
        answers["probabilities"].numpy()[:, 0, :3],
        strict=True,
    ):
        guesses = [
            f"{piece.decode().removeprefix(chr(0x2581))} {probability:.0%}"
            for piece, probability in zip(pieces, odds, strict=True)
        ]
        print(f"{text}\n    [MASK] is {', '.join(guesses)}")

    classifier = tf.saved_model.load(f"{folder}/cola")
    answers = classifier.signatures["serving_default"](
        text=tf.constant(SENTENCES)
    )
    for text, label, odds in zip(
        SENTENCES,
        answers["label"].numpy(),
        answers["probabilities"].numpy(),
        strict=True,
    ):
        print(f"{text}\n    {VERDICTS[label]} ({odds.max():.0%})")

    with open(sentences_file, encoding="utf-8") as file:
        sentences = file.read().splitlines()
    encoder = tf.saved_model.load(f"{folder}/sentences")
    embed = encoder.signatures["serving_default"]
    questions = embed(text=tf.constant(QUESTIONS))["embedding"]
    vectors = embed(text=tf.constant(sentences))["embedding"]
    cosines = tf.matmul(questions, vectors, transpose_b=True)
    best, rows = tf.math.top_k(cosines, 2)
    print(f"\nThe nearest of {len(sentences)} sentences (cosine):")
    for question, values, nearest in zip(
        QUESTIONS, best.numpy(), rows.numpy(), strict=True
    ):
        print(question)
        for value, row in zip(values, nearest, strict=True):
            print(f"    {value:.2f} {sentences[row]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
