from tests.albert_tf.model.conftest import (  # noqa: F401
    _seeded,
    small_config,
)
from tests.albert_tf.serving.conftest import (  # noqa: F401
    config,
    of_choices,
    of_numbers,
    of_pairs,
    tokenizer,
)
