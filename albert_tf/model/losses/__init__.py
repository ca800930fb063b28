"""What heads are trained for: one objective for each."""
