"""From a trained net to a file that runs without torch: ONNX, compared with the net before it is written."""
