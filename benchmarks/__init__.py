"""Measurements that take minutes and are run by hand; their results are in docs/results."""
