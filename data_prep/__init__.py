"""Offline data preparation: from raw text to vocabulary and TFRecords."""

import albert_tf  # noqa: F401 - looks at the interpreter first.
