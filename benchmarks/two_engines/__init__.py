"""Two real engines behind one gateway: what staying at home is worth, and what a kill -9 costs. See `__main__`."""
