"""Agentix: serving for LLM agents that schedules whole programs, not single requests."""

__version__ = "0.1.0"

__all__ = ["__version__"]
