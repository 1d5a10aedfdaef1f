"""The pages of the package: the reference is current, and the examples of guide and README run."""

from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

import goldseam as gs

ROOT = pathlib.Path(os.environ.get("GOLDSEAM_ROOT", pathlib.Path(__file__).resolve().parents[3]))


def test_reference_is_current() -> None:
    tool = ROOT / "sdk" / "python" / "tools" / "reference.py"
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(gs.__file__).resolve().parent.parent)}
    done = subprocess.run([sys.executable, str(tool)], capture_output=True, text=True, env=environment, check=True)
    page = (ROOT / "docs" / "python-api.md").read_text()
    assert done.stdout == page, "run: python tools/reference.py > ../../docs/python-api.md"


def examples(page: str) -> list[str]:
    found = re.findall(r"^ *```python\n(.*?)^ *```", (ROOT / page).read_text(), re.S | re.M)
    return [textwrap.dedent(example) for example in found]


def test_example_of_the_guide_runs(tmp_path: pathlib.Path) -> None:
    program = examples("docs/guides/python.md")[0]
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(gs.__file__).resolve().parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0 and "4200 cents" in done.stdout, done.stderr


@pytest.mark.parametrize("page", ["docs/guides/python.md", "sdk/python/README.md"])
def test_examples_are_python(page: str) -> None:
    for example in examples(page):
        ast.parse(example)


def test_every_code_of_the_package_has_a_page() -> None:
    source = "".join(path.read_text() for path in pathlib.Path(gs.__file__).resolve().parent.glob("*.py"))
    for code in sorted(set(re.findall(r"GS0\d{3}", source))):
        assert gs.explain(code).startswith(f"# {code}: ")
    with pytest.raises(gs.Error):
        gs.explain("GS9999")
