"""Texts or pairs of texts with a label or a number each."""
