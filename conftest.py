"""Doctests of the rooms that need torch are not collected where it is not installed."""

from importlib.util import find_spec

NEED_TORCH = ["src/riverrun/nn/*", "src/riverrun/train/*", "src/riverrun/export/*"]
collect_ignore_glob = [] if find_spec("torch") else NEED_TORCH
