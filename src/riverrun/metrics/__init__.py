"""Scores of predictions against what is right, each with a signature that says how it was computed."""
