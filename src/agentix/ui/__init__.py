"""What people look at: the dashboard's page (`static`, served by the gateway at /ui) and `agentix top` (`terminal`).

Both read /v1/changes, /v1/calls, /v1/programs and /health, and know a gateway by its address alone.
"""
