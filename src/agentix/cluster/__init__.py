"""Many machines: what several gateways share, and engines on a Ray cluster."""
