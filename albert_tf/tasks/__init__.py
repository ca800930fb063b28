"""Finetuning tasks: what is read, how it becomes features, how it is scored."""
