"""The command line: parse, build a configuration, call. No logic."""


def main() -> None:
    """Run."""
