"""Offline data preparation: from raw text to vocabulary and TFRecords."""
