"""Durable agents of Pydantic AI, on its public API for durable execution.

Add the capability to an agent, and call the agent in a workflow. Each model request and each tool call is a step::

    agent = Agent("openai:gpt-5", name="weather", capabilities=[GoldseamDurability()])

    @gs.workflow
    async def answer(question: str) -> str:
        return (await agent.run(question)).output

Outside of a workflow the agent runs as always. Options of a tool are in its metadata, under the key ``goldseam``:
``{"goldseam": StepOptions.of(retry=3, ...)}``, or ``False`` to call the tool without a step.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Awaitable, Callable, Mapping

from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    CallableOperationBackend,
    DurabilityEngineSpec,
    DurableOperationBackend,
    DurableOperationId,
    DurableOperationNamer,
    JournalOperationNamer,
    RoleBasedOperationConfig,
    conversation_id_from_run_id,
)
from pydantic_ai.durable_exec._operation_names import DurableInvocationName

from .. import _operations as operations
from .._errors import Cancelled, Terminal
from .._options import Retry, StepOptions
from .._steps import AsyncStep

_FOREIGN = re.compile(r"[^A-Za-z0-9._-]+")


class _Namer(DurableOperationNamer):
    """Names of operations in our alphabet: ``weather.model.request``, ``weather.call_tool`` with the tool as a label."""

    def __init__(self, agent: str) -> None:
        self._names = JournalOperationNamer(agent)

    def operation_name(self, operation_id: DurableOperationId) -> str:
        name = _FOREIGN.sub(".", self._names.operation_name(operation_id).replace("__", "."))
        return name.lstrip("._-")[-128:].lstrip("._-")

    def invocation_name(self, operation_id: DurableOperationId, *, label: str | None) -> DurableInvocationName:
        name = self.operation_name(operation_id)
        if label:
            tool = _FOREIGN.sub(".", label).strip("._-")
            name = f"{name}.{tool}"[-128:].lstrip("._-") if tool else name
        return DurableInvocationName(name)


class _Backend(CallableOperationBackend[StepOptions]):
    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: StepOptions,
    ) -> object:
        async def call() -> Any:
            return await body()

        return await AsyncStep(call, name, config)()


class GoldseamDurability(BaseDurabilityCapability[Any]):
    """Makes the model requests and tool calls of an agent durable steps, inside of workflows."""

    engine_spec = DurabilityEngineSpec(
        engine_name="Goldseam",
        durable_unit_noun="step",
        durable_container_noun="workflow",
        codec=JSON_CODEC,
        serialization_failure=lambda error: Terminal(f"a result cannot be written as JSON: {error}", code="GS0634"),
        tool_config_key="goldseam",
        cancellation_error_types=(Cancelled,),
    )

    def __init__(
        self,
        *,
        models: Mapping[str, Any] | None = None,
        event_stream_handler: Any = None,
        name: str | None = None,
        model: StepOptions | None = None,
        tool: StepOptions | None = None,
    ) -> None:
        """``model`` and ``tool``: options of the steps; by default a model request has three attempts, a tool call one."""
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self._model_options = model or StepOptions(retry=Retry(attempts=3))
        self._tool_options = tool or StepOptions()

    @property
    def in_durable_context(self) -> bool:
        return operations.in_workflow()

    def get_default_run_id(self) -> str | None:
        return str(operations.uuid()) if operations.in_workflow() else None

    def get_default_conversation_id(self, run_id: str) -> str | None:
        return conversation_id_from_run_id(run_id) if operations.in_workflow() else None

    async def get_run_start_time(self, run_id: str) -> dt.datetime | None:
        return operations.now() if operations.in_workflow() else None

    def get_durable_operation_backend(self) -> DurableOperationBackend[Any]:
        def of_tool(operation_id: DurableOperationId, tool: Any, name: str) -> Any:
            metadata = getattr(getattr(tool, "tool_def", None), "metadata", None) or {}
            found = metadata.get("goldseam", self._tool_options)
            return StepOptions(**found) if isinstance(found, dict) else found

        config = RoleBasedOperationConfig(
            model=self._model_options,
            event=StepOptions(),
            capability=StepOptions(),
            tool=self._tool_options,
            resolve_tool=of_tool,
        )
        return _Backend(namer=_Namer(self.name or "agent"), config=config)
