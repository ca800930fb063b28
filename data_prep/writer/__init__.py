"""The stages of the pretraining data writer."""
