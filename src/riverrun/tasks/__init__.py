"""TODO room tasks."""
