from tests.albert_tf.serving.conftest import config, tokenizer  # noqa: F401
