"""Shared by all tests: devices, tolerances, small models, real data."""

import dataclasses
import hashlib
import importlib.abc
import importlib.util
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

from albert_tf.common import errors, options
from albert_tf.model import config as model_config
from albert_tf.text import tokenization
from data_prep import train_sentencepiece
from data_prep.demo import story_world

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "fixtures"

# One float32 layer or formula against another; rounding only.
LAYER_ATOL = 1e-6
# Outputs of the recorded original: some hundred float32 operations deep.
PARITY_ATOL = 1e-5
# Losses that are sums in another order, such as two replicas against one.
LOSS_RTOL = 1e-5


class TwoDevices(importlib.abc.MetaPathFinder):
    """Divides the CPU, so that replicas can be tested on any machine.

    That must happen before TensorFlow starts. It takes seconds to import, so
    only the tests that need it may import it, at whatever moment.
    """

    def find_spec(self, name, path=None, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def start(tf):
            execute(tf)
            (cpu,) = tf.config.list_physical_devices("CPU")
            tf.config.set_logical_device_configuration(
                cpu, [tf.config.LogicalDeviceConfiguration()] * 2
            )

        spec.loader.exec_module = start
        return spec


sys.meta_path.insert(0, TwoDevices())


def tiny_config(**changes) -> model_config.AlbertConfig:
    """One layer, for tests that run whole programs."""
    sizes = {
        "vocab_size": 400,
        "embedding_size": 8,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 64,
    }
    return model_config.AlbertConfig(**{**sizes, **changes})


def load_tool(name):
    path = ROOT / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def python(*words, status: int | None = 0, **how):
    """Run Python in another process; it must end with the status, or any."""
    how = {"cwd": ROOT, "text": True, "timeout": 300, **how}
    done = subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, **how
    )
    assert status in (None, done.returncode), done.stderr
    return done


def make_replicas(count: int = 2):
    """Mirror over logical CPUs.

    Every strategy of one process needs its own collective keys, otherwise
    the second waits for shapes of the first; TensorFlow's tests do the same.
    """
    import tensorflow as tf

    tf.distribute.MirroredStrategy._collective_key_base += 100_000
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(count)])


def changed(settings, **values):
    """A copy of an options object; options inside it change by their names."""
    groups = {k: v for k, v in values.items() if dataclasses.is_dataclass(v)}
    settings = dataclasses.replace(settings, **groups)
    flat = {k: v for k, v in values.items() if k not in groups}
    return options.from_dict(
        type(settings), {**options.to_dict(settings), **flat}
    )


def digest(*values) -> str:
    """Sum up numbers, texts and arrays: a golden value of many results.

    Where one differs, look at the other tests of the file first. A change
    that alters results on purpose gets the new digests, and says why.
    """
    plain = [
        value.tolist() if hasattr(value, "tolist") else value
        for value in values
    ]
    return hashlib.sha256(repr(plain).encode()).hexdigest()[:12]


def refused(message: str | None = None):
    """Expect a user's mistake, with a message that matches the pattern."""
    return pytest.raises(errors.UserError, match=message)


@pytest.fixture(scope="session")
def shared_dir() -> pathlib.Path:
    path = ROOT.parent / "shared"
    if not path.is_dir():
        pytest.skip(f"needs the real data in {path}, which is not there")
    return path


@pytest.fixture(scope="session")
def jax_python() -> str:
    """The interpreter that has jax, of tests with the mark `jax`."""
    return os.path.abspath(os.environ["ALBERT_TF_JAX_PYTHON"])


@pytest.fixture(scope="session")
def story_text() -> tuple[str, str]:
    return story_world.make_corpora(12345, 300, 40)


@pytest.fixture(scope="session")
def tiny_vocab(tmp_path_factory, story_text) -> str:
    """Path of a SentencePiece model trained on generated text."""
    folder = tmp_path_factory.mktemp("vocab")
    (folder / "text.txt").write_text(story_text[0])
    train_sentencepiece.run(
        train_sentencepiece.Options(
            input_file=str(folder / "text.txt"),
            output_prefix=str(folder / "tiny"),
            vocab_size=400,
        )
    )
    return str(folder / "tiny.model")


@pytest.fixture
def undescribed_vocab(tiny_vocab, tmp_path) -> str:
    """The same model without the file that says how text is normalized."""
    path = tmp_path / "undescribed.model"
    path.write_bytes(pathlib.Path(tiny_vocab).read_bytes())
    return str(path)


@pytest.fixture
def tiny_tokenizer(tiny_vocab) -> tokenization.Tokenizer:
    return tokenization.Tokenizer(tiny_vocab)


@pytest.fixture(scope="session")
def small_config() -> model_config.AlbertConfig:
    """Two groups of two inner blocks, a mapping, no dropout: milliseconds."""
    return tiny_config(
        num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2
    )
