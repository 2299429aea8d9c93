"""TODO room nn/layers."""
