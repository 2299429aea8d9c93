"""The command as it is where torch was not installed: no finder finds it."""

from __future__ import annotations

WITHOUT_TORCH = """
import sys
from riverrun.cli.main import main

class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *rest):
        return None if name == "torch" else self.finder.find_spec(name, *rest)
    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Without, sys.meta_path)
main()
"""
