"""Models around the encoder: pretraining, classes, choices, answers."""
