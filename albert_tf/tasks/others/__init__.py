"""Tasks that have no slice yet; this folder goes when they have."""
