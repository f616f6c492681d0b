"""`python -m agentix` is `agentix`."""

from agentix.cli import main

if __name__ == "__main__":
    main()
