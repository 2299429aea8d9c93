"""TODO room text."""
