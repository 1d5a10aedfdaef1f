"""The wheel: its types, its metadata, and the form without an engine for other platforms."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest
from conftest import server

WHEEL = os.environ.get("GOLDSEAM_WHEEL")
TOOL = pathlib.Path(__file__).resolve().parents[1] / "tools" / "pure.py"

pytestmark = pytest.mark.skipif(not WHEEL, reason="GOLDSEAM_WHEEL names no wheel")

WITH_A_SERVER = """
import sys
import goldseam as gs

@gs.step
def double(number: int) -> int:
    return number * 2

@gs.workflow
def job(number: int) -> int:
    return double(number)

try:
    gs.open("memory:").__enter__()
except gs.Error as error:
    assert error.code == "GS0635", error
else:
    raise AssertionError("there is an engine")
with gs.open(sys.argv[1], workflows=[job]) as engine:
    assert engine.start(job, 21).result(60) == 42
"""


def test_wheel_has_types_and_extras() -> None:
    assert WHEEL is not None
    with zipfile.ZipFile(WHEEL) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert "goldseam/py.typed" in names and "goldseam/_native.pyi" in names
    assert "abi3" in WHEEL and "Requires-Python: >=3.10" in metadata
    assert all(f"Provides-Extra: {extra}" in metadata for extra in ("pydantic", "pydantic-ai", "langgraph"))
    assert not [name for name in names if "test" in name.split("/")[0]]


def test_wheel_without_an_engine_works_with_a_server(tmp_path: pathlib.Path) -> None:
    made = subprocess.run(
        [sys.executable, str(TOOL), str(WHEEL), str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert made.endswith("-py3-none-any.whl")
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site), made]
    subprocess.run(pip, check=True)
    assert not list(site.glob("goldseam/*.so"))
    with server(f"sqlite:{tmp_path}/s.db") as url:
        environment = {**os.environ, "PYTHONPATH": str(site)}
        program = [sys.executable, "-c", WITH_A_SERVER, url]
        done = subprocess.run(program, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120)
        assert done.returncode == 0, done.stderr
