"""TODO room cli."""
