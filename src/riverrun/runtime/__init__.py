"""TODO room runtime."""
