"""From a trained model to a SavedModel, LiteRT or ONNX, and its clients."""
