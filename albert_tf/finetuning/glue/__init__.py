"""The tasks of GLUE."""
