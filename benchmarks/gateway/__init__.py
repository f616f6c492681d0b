"""What the gateway costs: latency, calls, chunks and memory, beside no gateway and beside others'."""
