"""Adapters for other libraries. Each needs its extra: ``pip install goldseam[pydantic-ai]``."""
