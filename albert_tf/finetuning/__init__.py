"""Tasks, and one finetuning run for all of them."""
