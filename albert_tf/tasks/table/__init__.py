"""Tables of the user: labels, numbers, rankings."""
