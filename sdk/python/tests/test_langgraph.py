"""The checkpointer of LangGraph: the conformance suite of LangGraph, other processes, and a second writer."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import pytest

pytest.importorskip("langgraph.checkpoint.conformance")

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.test_utils import generate_checkpoint, generate_config, generate_metadata

import goldseam as gs
from goldseam._engine import connect
from goldseam.ext.langgraph import GoldseamSaver


def test_conformance_suite_passes_with_every_capability() -> None:
    @checkpointer_test(name="GoldseamSaver")
    async def saver() -> Any:
        with GoldseamSaver("memory:", hold=0.2) as made:
            yield made

    report = asyncio.run(validate(saver))
    failed = [
        f"{name}: {result.failures}" for name, result in report.results.items() if result.failures
    ]
    assert failed == [] and len(report.results) == 8


def test_checkpoints_survive_the_process(tmp_path: pathlib.Path) -> None:
    url, config = f"sqlite:{tmp_path}/t.db", generate_config("t-1")
    checkpoint = generate_checkpoint()
    with GoldseamSaver(url) as saver:
        stored = saver.put(config, checkpoint, generate_metadata(), {})
        saver.put_writes(stored, [("channel", 7)], "task-1")
    with GoldseamSaver(url) as saver:
        found = saver.get_tuple(generate_config("t-1"))
        assert found is not None and found.checkpoint["id"] == checkpoint["id"]
        assert [(write[1], write[2]) for write in found.pending_writes or []] == [("channel", 7)]
        saver.put(stored, generate_checkpoint(), generate_metadata(), {})
        assert len(list(saver.list(generate_config("t-1")))) == 2


def test_a_second_writer_is_refused_until_the_first_pauses(tmp_path: pathlib.Path) -> None:
    transport = connect(f"sqlite:{tmp_path}/t.db")
    try:
        first, second = GoldseamSaver(transport, hold=3600), GoldseamSaver(transport, hold=3600)
        config = generate_config("t-1")
        stored = first.put(config, generate_checkpoint(), generate_metadata(), {})
        with pytest.raises(gs.Error) as caught:
            second.put(stored, generate_checkpoint(), generate_metadata(), {})
        assert caught.value.code == "GS0638"
        assert len(list(second.list(config))) == 1, "reading is allowed"
        first.close()
        second.put(stored, generate_checkpoint(), generate_metadata(), {})
        assert len(list(second.list(config))) == 2
        second.close()
    finally:
        transport.close()
