"""An agent that crashes at every point makes each model and tool call once."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import goldseam as gs
from goldseam.ext.pydantic_ai import GoldseamDurability
from goldseam.testing import Tester


def make(goldseam: Tester) -> Any:
    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        goldseam.did("model", f"request {len(messages)}")
        returned = [
            part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)
        ]
        if not returned:
            cities = ("Kyoto", "Osaka")
            return ModelResponse(parts=[ToolCallPart("forecast", {"city": city}) for city in cities])
        return ModelResponse(parts=[TextPart(", ".join(map(str, returned)))])

    agent = Agent(FunctionModel(respond), name="weather", capabilities=[GoldseamDurability()])

    @agent.tool_plain
    async def forecast(city: str) -> str:
        goldseam.did("forecast", city)
        return f"{city}: sun"

    @gs.workflow
    async def answer(question: str) -> str:
        return str((await agent.run(question)).output)

    return answer


def test_agent_makes_each_call_once_without_faults(goldseam: Tester) -> None:
    assert goldseam.run(make(goldseam), "weather?") == "Kyoto: sun, Osaka: sun"
    assert (goldseam.world.times("model"), goldseam.world.times("forecast")) == (2, 2)


def test_agent_survives_a_crash_before_and_after_every_append(goldseam: Tester) -> None:
    report = goldseam.every_crash(make(goldseam), "weather?")
    assert report.outcome == "Kyoto: sun, Osaka: sun"
    # Only a call whose result was not recorded before the crash is made again.
    assert report.most["model"] <= 3 and report.most["forecast"] <= 4


def test_agent_outside_of_a_workflow_runs_as_always(goldseam: Tester) -> None:
    workflow = make(goldseam)
    import asyncio

    assert asyncio.run(workflow("weather?")) == "Kyoto: sun, Osaka: sun"
