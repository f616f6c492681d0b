"""A long run of everything that clients do to an engine with a small KV cache, their leaving above all."""
