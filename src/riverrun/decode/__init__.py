"""TODO room decode."""
