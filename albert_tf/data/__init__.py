"""Records: their layout, masking, and batches for training."""
