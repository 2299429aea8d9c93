"""Scores to structures: the same code on numpy and torch arrays."""
