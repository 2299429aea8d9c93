"""TODO room config."""
