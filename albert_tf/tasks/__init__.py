"""The tasks, a folder each: see finetuning/contract.py."""
