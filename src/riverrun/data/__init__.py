"""TODO room data."""
