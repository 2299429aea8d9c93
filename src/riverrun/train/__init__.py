"""TODO room train."""
