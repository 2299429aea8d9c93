"""TODO room nn."""
