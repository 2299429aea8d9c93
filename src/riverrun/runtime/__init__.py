"""Exported graphs as scorers: ONNX Runtime and numpy, no torch."""
