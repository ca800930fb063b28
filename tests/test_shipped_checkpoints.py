"""The weights that come with the package."""

import numpy as np
import pytest

from albert_tf.common import configs
from albert_tf.finetuning import base, batches, packing, predictions
from albert_tf.model import compatibility
from albert_tf.model.checkpoints import checkpoint_reader, restoring
from albert_tf.model.network.encoder import AlbertModel
from albert_tf.tasks.embedding import model as head
from albert_tf.tasks.embedding import task as embedding
from albert_tf.text import tokenization
from albert_tf.training import run_folder

NAMES = sorted(p.name for p in (configs.folder() / "checkpoints").iterdir())
PAIRS = (
    ("The cat sleeps on the sofa.", "A kitten takes a nap on the couch."),
    ("She drives to work every day.", "Each morning she takes the car."),
    ("The soup is too hot to eat.", "You cannot eat this soup, it burns."),
    ("Prices rose sharply last year.", "Goods became much more expensive."),
    ("He plays the violin in a band.", "A man makes music with a fiddle."),
    ("The river flooded the village.", "Water from the stream filled houses."),
)


@pytest.mark.parametrize("name", NAMES)
def test_files_are_small_and_whole(name):
    """Less than 10 MB; the card says what is needed."""
    folder = configs.folder() / "checkpoints" / name
    files = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert sum(files.values()) < 10_000_000
    assert {"model.safetensors", "albert_config.json", "README.md"} <= set(
        files
    )
    card = (folder / "README.md").read_text()
    for word in ("icence", "Teacher", "distill", "STS-B"):
        assert word in card, word


def test_vectors_of_the_same_meaning_are_the_closest():
    """Loaded by name: weights, config and vocabulary."""
    name = "albert_small_en"
    checkpoint = checkpoint_reader.read(name)
    config = checkpoint.config
    given = tokenization.VocabularyOptions(vocab_file=name)
    beside, _ = run_folder.vocabulary_beside(
        checkpoint.path, tokenization.VocabularyOptions()
    )
    assert given.path == beside.path
    tokenizer = compatibility.load_tokenizer(given.resolved(), config, name)
    wanted = embedding.EmbeddingOptions(projection_size=384)
    task = embedding.EmbeddingTask(tokenizer, 32, wanted)
    model = head.AlbertEmbedder(AlbertModel(config), "mean", 384)
    restoring.restore(model, checkpoint)
    texts = [text for pair in PAIRS for text in pair]
    examples = [packing.TextExample(n, (t,)) for n, t in enumerate(texts)]
    vectors = batches.run_model(
        predictions.compile_model(model), task, examples, 8, split=base.PREDICT
    )["embedding"]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    cosines = vectors @ vectors.T - 2 * np.eye(len(texts))
    partner = np.arange(len(texts)) ^ 1
    np.testing.assert_array_equal(cosines.argmax(1), partner)
