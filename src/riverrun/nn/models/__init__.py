"""Nets: one a file, numbers in, scores and a loss out; no strings, no config."""
