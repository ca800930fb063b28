from tests.albert_tf.serving.conftest import (  # noqa: F401
    config,
    of_choices,
    tokenizer,
)
