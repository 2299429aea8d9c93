"""TODO room metrics."""
