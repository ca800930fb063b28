"""Ask a SavedModel, and show its answers."""
