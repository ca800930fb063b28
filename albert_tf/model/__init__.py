"""The encoder, its heads, objectives, optimizer and checkpoints."""
