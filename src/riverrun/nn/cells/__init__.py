"""TODO room nn/cells."""
