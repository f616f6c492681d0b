"""LiteLLM, told before it is imported not to fetch its list of models from the network."""

from __future__ import annotations

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

__all__ = ["litellm"]
