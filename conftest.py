"""Doctests of the rooms that need torch are not collected where it is not installed."""

import signal
from importlib.util import find_spec

NEED_TORCH = ["src/riverrun/nn/*", "src/riverrun/train/*", "src/riverrun/export/*"]
collect_ignore_glob = [] if find_spec("torch") else NEED_TORCH

# A shell starts what it puts into the background with Ctrl-C ignored; the tests of Ctrl-C send it nevertheless.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
