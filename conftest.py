"""Doctests of what needs torch or numba are not collected where these are not installed."""

import signal
from importlib.util import find_spec

NEED_TORCH = ["src/riverrun/nn/*", "src/riverrun/train/*", "src/riverrun/export/*"]
COUNTING = ("counts", "runs", "smoothing", "snm_training", "sorting")
NEED_NUMBA = [f"src/riverrun/classic/{name}.py" for name in COUNTING]
collect_ignore_glob = [] if find_spec("torch") else [*NEED_TORCH]
collect_ignore_glob += [] if find_spec("numba") else NEED_NUMBA

# A shell starts what it puts into the background with Ctrl-C ignored; the tests of Ctrl-C send it nevertheless.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
