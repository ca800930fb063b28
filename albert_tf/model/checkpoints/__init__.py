"""Checkpoints of every layout: read, restored by name, written."""
