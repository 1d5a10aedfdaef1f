"""The vectors of the worker's protocol, against both transports, and the paths of this SDK."""

from __future__ import annotations

import json
import os
import pathlib
import time
from typing import Any

import pytest
from conftest import new_id, server

import goldseam as gs
from goldseam._engine import connect
from goldseam._paths import Arm, idempotency_key

_HERE = pathlib.Path(__file__).resolve()
VECTORS = pathlib.Path(os.environ.get("GOLDSEAM_VECTORS", _HERE.parents[3] / "docs" / "protocol"))
SCRIPTS = sorted(
    path.name for path in VECTORS.glob("*.json") if "script" in json.loads(path.read_text()) and path.name != "trace.json"
)


class _Execution:
    """What an arm needs of an execution."""

    run = "o-1"

    def __init__(self) -> None:
        self.arms: dict[str, Any] = {}


def test_paths_are_those_of_the_vectors() -> None:
    def check(arm: Arm, calls: list[dict[str, Any]]) -> None:
        for call in calls:
            spot = arm.spot(call["name"], call.get("key"))
            assert (spot.path, spot.ord) == (call["path"], call["ord"])
            if "inside" in call:
                inner = spot.path if call["call"] == "group" else f"{spot.path}~"
                check(Arm(arm.execution, inner), call["inside"])

    vectors = json.loads((VECTORS / "paths.json").read_text())
    check(Arm(_Execution()), vectors["calls"])  # type: ignore[arg-type]


def test_idempotency_keys_are_those_of_the_vectors() -> None:
    for vector in json.loads((VECTORS / "keys.json").read_text())["keys"]:
        assert idempotency_key(vector["run"], vector["generation"], vector["path"]) == vector["key"]


def test_invalid_names_are_refused() -> None:
    arm = Arm(_Execution())  # type: ignore[arg-type]
    for name in ("", "-a", "a/b", "ä", "a b", "x" * 129):
        with pytest.raises(gs.Misuse) as caught:
            arm.spot(name)
        assert caught.value.code == "GS0101"


class Script:
    """Runs the actions of one vector."""

    def __init__(self, transport: Any, document: dict[str, Any], run: str) -> None:
        self.transport = transport
        self.run = run
        self.workflow = document["run"]["workflow"]
        self.script = document["script"]
        self.input = document["run"].get("input")
        self.worker = ""
        self.token = ""
        self.end = 0

    def post(self, path: str, body: Any = None) -> Any:
        return self.transport.request("POST", path, body if body is not None else {})

    def register(self) -> None:
        labels = [f"{self.workflow}@1", "pack@1"]
        answer = self.post("/v1/workers", {"name": "vectors", "workflows": labels, "slots": 4})
        self.worker = answer["worker"]

    def play(self) -> None:
        self.register()
        started = {"workflow": self.workflow, "id": self.run, "input": self.input, "version": 1}
        self.post("/v1/runs", started)
        for action in self.script:
            (kind,) = [name for name in action if name not in ("expect", "refused")]
            getattr(self, f"do_{kind}")(action[kind], action.get("expect"), action.get("refused"))

    def do_claim(self, _: Any, expect: Any, refused: Any) -> None:
        deadline = time.monotonic() + 60
        while True:
            body = {"limit": 1, "holding": [], "wait_ms": 1000}
            found = self.post(f"/v1/workers/{self.worker}/claim", body)["executions"]
            mine = [execution for execution in found if execution["run"] == self.run]
            if mine:
                break
            assert time.monotonic() < deadline
        self.token, self.end = mine[0]["token"], mine[0]["end"]
        is_part(mine[0], expect)

    def do_append(self, append: Any, expect: Any, refused: Any) -> None:
        body = {"token": self.token, "after": self.end, **append}
        if refused is not None:
            with pytest.raises(gs.Problem) as caught:
                self.post("/v1/executions/append", body)
            assert caught.value.code == refused
            return
        answer = self.post("/v1/executions/append", body)
        is_part(answer, expect)
        self.end = answer["end"]
        if answer.get("next"):
            self.token, self.end = answer["next"]["token"], answer["next"]["end"]

    def do_signal(self, body: Any, expect: Any, refused: Any) -> None:
        self.post(f"/v1/runs/{self.run}/signal", body)

    def do_answer(self, body: Any, expect: Any, refused: Any) -> None:
        question = body.pop("question")
        self.post(f"/v1/runs/{self.run}/questions/{question}/answer", body)

    def do_cancel(self, body: Any, expect: Any, refused: Any) -> None:
        self.post(f"/v1/runs/{self.run}/cancel", body or {})

    def do_pause(self, body: Any, expect: Any, refused: Any) -> None:
        self.post(f"/v1/runs/{self.run}/pause", body or {})

    def do_resume(self, body: Any, expect: Any, refused: Any) -> None:
        self.post(f"/v1/runs/{self.run}/resume", body or {})

    def do_task(self, body: Any, expect: Any, refused: Any) -> None:
        claim = {"owner": "vectors", "wait_ms": 10000, **{k: body[k] for k in ("queue", "kind") if k in body}}
        (item,) = self.post("/v1/tasks/claim", claim)["items"]
        result = {"token": item["token"], "result": body.get("result", body.get("complete"))}
        self.post(f"/v1/tasks/{item['task']['id']}/complete", result)

    def do_leave(self, _: Any, expect: Any, refused: Any) -> None:
        self.transport.request("DELETE", f"/v1/workers/{self.worker}")
        self.register()

    def do_status(self, status: str, expect: Any, refused: Any) -> None:
        deadline = time.monotonic() + 60
        while self.transport.request("GET", f"/v1/runs/{self.run}/result")["status"] != status:
            assert time.monotonic() < deadline, status
            time.sleep(0.01)


def is_part(actual: Any, expected: Any, where: str = "") -> None:
    """An expected object is a part of the actual one; an expected list has as many items."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert isinstance(actual, dict) and name in actual, f"{where}.{name}: {actual}"
            is_part(actual[name], value, f"{where}.{name}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), f"{where}: {actual}"
        for at, (found, value) in enumerate(zip(actual, expected)):
            is_part(found, value, f"{where}[{at}]")
    elif expected is not None or actual is not None:
        assert actual == expected, f"{where}: {actual}"


@pytest.mark.parametrize("name", SCRIPTS)
def test_vectors_hold_on_this_transport(name: str, url: str, tmp_path: pathlib.Path) -> None:
    text = (VECTORS / name).read_text()
    if url.startswith("sqlite:"):
        return play(url, text, "o-1")
    if name == "child.json":
        # It has an id that depends on the id of the run, so the run needs a server of its own.
        with server(f"sqlite:{tmp_path}/s.db") as own:
            return play(own, text, "o-1")
    run = new_id("o")
    play(url, text.replace('"o-1', f'"{run}').replace('"order"', f'"order-{run}"'), run)


def play(url: str, text: str, run: str) -> None:
    transport = connect(url)
    try:
        Script(transport, json.loads(text), run).play()
    finally:
        transport.close()
