"""The training loop and the folder of a run; knows no task."""
