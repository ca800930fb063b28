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
from tests.conftest import refused

# With the most bytes of a folder.
SIZES = {"albert_small_en": 10_000_000, "albert_small_multi": 20_000_000}
PAIRS = (
    ("The cat sleeps on the sofa.", "A kitten takes a nap on the couch."),
    ("She drives to work every day.", "Each morning she takes the car."),
    ("The soup is too hot to eat.", "You cannot eat this soup, it burns."),
    ("Prices rose sharply last year.", "Goods became much more expensive."),
    ("He plays the violin in a band.", "A man makes music with a fiddle."),
    ("The river flooded the village.", "Water from the stream filled houses."),
)
TRANSLATIONS = (
    ("The cat sleeps on the sofa.", "Die Katze schläft auf dem Sofa."),
    ("It will rain tomorrow.", "明日は雨が降るでしょう。"),
    ("This restaurant is too expensive.", "这家餐厅太贵了。"),
    ("Er fährt mit dem Zug nach Berlin.", "他坐火车去柏林。"),
    ("Das Kind liest ein Buch.", "子供が本を読んでいます。"),
    ("我不喜欢喝咖啡。", "私はコーヒーが好きではありません。"),
)


def test_each_is_tested():
    assert configs.checkpoint_names() == sorted(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_files_are_small_and_whole(name):
    """The card says what is needed."""
    folder = configs.folder() / "checkpoints" / name
    files = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert sum(files.values()) < SIZES[name]
    assert {"model.safetensors", "albert_config.json", "README.md"} <= set(
        files
    )
    card = (folder / "README.md").read_text()
    for word in ("icence", "Teacher", "distill", "STS-B"):
        assert word in card, word


@pytest.mark.parametrize(
    ("name", "option", "width", "pairs"),
    [
        ("albert_small_en", "vocab_file", 384, PAIRS),
        ("albert_small_multi", "spm_model_file", 512, PAIRS),
        ("albert_small_multi", "spm_model_file", 512, TRANSLATIONS),
    ],
)
def test_vectors_of_the_same_meaning_are_the_closest(
    name, option, width, pairs
):
    """Loaded by name: weights, config and vocabulary."""
    checkpoint = checkpoint_reader.read(name)
    config = checkpoint.config
    given = tokenization.VocabularyOptions(**{option: name})
    beside, _ = run_folder.vocabulary_beside(
        checkpoint.path, tokenization.VocabularyOptions()
    )
    assert given.path == beside.path
    tokenizer = compatibility.load_tokenizer(given.resolved(), config, name)
    wanted = embedding.EmbeddingOptions(projection_size=width)
    task = embedding.EmbeddingTask(tokenizer, 32, wanted)
    model = head.AlbertEmbedder(AlbertModel(config), "mean", width)
    restoring.restore(model, checkpoint)
    texts = [text for pair in pairs for text in pair]
    examples = [packing.TextExample(n, (t,)) for n, t in enumerate(texts)]
    vectors = batches.run_model(
        predictions.compile_model(model), task, examples, 8, split=base.PREDICT
    )["embedding"]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    cosines = vectors @ vectors.T - 2 * np.eye(len(texts))
    partner = np.arange(len(texts)) ^ 1
    np.testing.assert_array_equal(cosines.argmax(1), partner)


def test_a_vocabulary_of_another_kind_is_named():
    with refused("vocab_file=albert_small_multi.*Use `spm_model_file=albert_"):
        tokenization.VocabularyOptions(vocab_file="albert_small_multi")
