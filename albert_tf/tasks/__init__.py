"""The tasks, a folder each: see finetuning/base.py."""
