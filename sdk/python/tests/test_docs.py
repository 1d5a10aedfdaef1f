"""The pages of the package: the reference is current, and the examples of guide and README run."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import binary

import goldseam as gs

ROOT = pathlib.Path(os.environ.get("GOLDSEAM_ROOT", pathlib.Path(__file__).resolve().parents[3]))


def test_reference_is_current() -> None:
    tool = ROOT / "sdk" / "python" / "tools" / "reference.py"
    done = subprocess.run([sys.executable, str(tool)], capture_output=True, text=True, env=environment(), check=True)
    page = (ROOT / "docs" / "python-api.md").read_text()
    assert done.stdout == page, "run: python tools/reference.py > ../../docs/python-api.md"


def examples(page: str) -> list[str]:
    found = re.findall(r"^ *```python\n(.*?)^ *```", (ROOT / page).read_text(), re.S | re.M)
    return [textwrap.dedent(example) for example in found]


def environment() -> dict[str, str]:
    package = str(pathlib.Path(gs.__file__).resolve().parent.parent)
    return {**os.environ, "PYTHONPATH": f"{package}:{os.environ.get('PYTHONPATH', '')}"}


@pytest.mark.parametrize(
    "page, outcome",
    [
        ("README.md", "Receipt(payment='hold-17: 4200 cents', parts=['pen'])"),
        ("sdk/python/README.md", "paid order-17 with key "),
        ("docs/guides/python.md", "'parts': ['PEN']}"),
    ],
)
def test_first_example_survives_a_kill_and_ends_with_its_answer(page: str, outcome: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "orders.py").write_text(examples(page)[0])
    answer = re.search(r"goldseam (answer order-17 approve true --store sqlite:orders.db)", (ROOT / page).read_text())
    assert answer is not None, "the page says how to answer"

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "orders.py"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), cwd=tmp_path)

    def asked() -> None:
        deadline = time.monotonic() + 60
        command = [str(binary()), "questions", "--store", "sqlite:orders.db"]
        while "approve" not in subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout:
            assert time.monotonic() < deadline, "the run did not ask"

    program = start()
    asked()
    program.kill()
    program.wait()
    program = start()
    try:
        subprocess.run([str(binary()), *answer[1].split()], check=True, capture_output=True, cwd=tmp_path)
        said, _ = program.communicate(timeout=120)
        assert program.returncode == 0 and outcome in said
        again, _ = start().communicate(timeout=120)
        assert again == said, "a run that has ended prints its result again"
    finally:
        program.kill()


def test_test_of_the_guide_passes(tmp_path: pathlib.Path) -> None:
    first, test, _ = examples("docs/guides/python.md")
    (tmp_path / "orders.py").write_text(first)
    (tmp_path / "test_orders.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=300)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_every_code_of_the_package_has_a_page() -> None:
    source = "".join(path.read_text() for path in pathlib.Path(gs.__file__).resolve().parent.glob("*.py"))
    for code in sorted(set(re.findall(r"GS0\d{3}", source))):
        assert gs.explain(code).startswith(f"# {code}: ")
    with pytest.raises(gs.Error):
        gs.explain("GS9999")
