"""A demonstration: the same agent programs on the same server, scheduled by calls first, then by programs."""
