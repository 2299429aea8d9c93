"""Layers: what a net is made of, from ids to hidden vectors to the scores of a chain."""
