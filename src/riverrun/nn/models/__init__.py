"""TODO room nn/models."""
