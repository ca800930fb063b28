"""SQuAD 1.1 and 2.0: data, windows, answers, scores."""
