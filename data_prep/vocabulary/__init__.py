"""What the programs that train a vocabulary share."""
