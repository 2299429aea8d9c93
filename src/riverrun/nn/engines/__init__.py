"""TODO room nn/engines."""
