"""The tasks of GLUE, and of the same kind of files."""
