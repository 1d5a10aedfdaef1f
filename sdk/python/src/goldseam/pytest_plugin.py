"""The pytest plugin: the fixture ``goldseam`` gives each test a fresh engine in memory, with virtual time."""

from __future__ import annotations

import pytest

from .testing import Tester


@pytest.fixture
def goldseam() -> Tester:
    """A tester of workflows: ``goldseam.run(...)``, ``goldseam.every_crash(...)``, ``goldseam.did(...)``."""
    return Tester()
