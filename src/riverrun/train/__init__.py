"""From a loss to a folder: the loop, its optimisers, schedules, checkpoints and events. ``events`` needs no torch."""
