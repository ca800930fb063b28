"""What an ALBERT encoder computes, as plain Keras layers."""
