"""Are answers right, however often calls are switched? Greedy answers of stock vLLM and of the plug-in under stress."""
