"""Many engines: balancers, how capacity grows with engines, skewed load, and the order of a batch. See `__main__`."""
