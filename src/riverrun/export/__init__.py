"""TODO room export."""
