"""How an exported model is stored: SavedModel, LiteRT, ONNX."""
