"""Models that put a task on top of a finished encoder."""
