"""What `--objective` chooses among: a file for each."""
