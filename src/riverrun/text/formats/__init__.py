"""TODO room text/formats."""
