"""How the encoder computes it: everything about speed and memory."""
