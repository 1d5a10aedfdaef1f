"""Writes the reference of the package from its docstrings: ``python tools/reference.py > ../../docs/python-api.md``."""

from __future__ import annotations

import inspect
import re
from typing import Any

import goldseam as gs
import goldseam.testing

_GROUPS = [
    ("Steps and workflows", ["step", "workflow", "Retry", "Step", "Workflow", "Done", "NotDone"]),
    ("In a step", ["attempt", "Attempt", "idempotency_key", "heartbeat", "secret", "Secret"]),
    ("In a workflow", [
        "sleep", "sleep_until", "signal", "ask", "select", "first", "Selected", "child", "start_child", "ChildHandle",
        "remote", "group", "arm", "run_function", "progress", "set_attribute", "remove_attribute", "changed",
        "publish", "requests", "Requests", "IncomingRequest", "signal_run", "continue_as_new", "now", "random", "uuid", "run_id", "version", "tag", "is_replaying", "in_workflow", "trace_context", "TraceContext",
    ]),
    ("Engines and clients", [
        "open", "Opening", "Engine", "Client", "RunHandle", "BlockingEngine", "BlockingRun", "Sweeper", "explain",
    ]),
    ("Payloads", ["Codec", "JsonCodec"]),
    ("Errors", [
        "Error", "Problem", "Unreachable", "Closed", "Misuse", "CodecError", "Failed", "StepFailed", "RunFailed",
        "ChildFailed", "WaitTimeout", "Retryable", "Terminal", "Unknown", "Cancelled", "register_exception",
    ]),
]  # fmt: skip


def text_of(thing: Any) -> str:
    """The docstring in one paragraph per block, without roles of Sphinx."""
    text = inspect.getdoc(thing) or ""
    text = re.sub(r":(?:class|func|meth):`~?([^`]+)`", lambda found: f"`{found.group(1).replace('goldseam.', 'gs.')}`", text)
    return text.replace("``", "`").replace("::\n", ":\n")


def signature_of(name: str, thing: Any) -> str:
    """The call, without annotations of other modules."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    shown = [parameter for parameter in signature.parameters.values() if parameter.name != "self"]
    parts = []
    star = False
    for parameter in shown:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
        parts.append(f"{prefix}{parameter.name}{default}")
    return f"{name}({', '.join(parts)})"


def _default(value: Any) -> str:
    if value is Any:
        return "Any"
    return value.__name__ if isinstance(value, type) else repr(value)


def methods_of(thing: type) -> list[tuple[str, Any]]:
    """The public methods that the class itself defines, in order."""
    return [
        (name, member)
        for name, member in vars(thing).items()
        if not name.startswith("_") and callable(member) and inspect.getdoc(member)
    ]


def render() -> str:
    """The whole page."""
    lines = ["# The Python package", "", "This file is generated from the docstrings: `sdk/python/tools/reference.py`. The guide is", "[Workflows in Python](guides/python.md).", ""]  # fmt: skip
    listed: set[str] = set()
    groups = [*_GROUPS, ("Tests (`goldseam.testing`)", ["Tester", "World", "Report", "Case"])]
    for title, names in groups:
        lines += [f"## {title}", ""]
        for name in names:
            thing = getattr(gs, name, None) or getattr(goldseam.testing, name)
            listed.add(name)
            is_error = isinstance(thing, type) and issubclass(thing, BaseException)
            head = name if is_error or name in ("Codec",) else signature_of(name, thing)
            lines += [f"### `{head}`", "", text_of(thing), ""]
            if isinstance(thing, type) and not is_error:
                for method, member in methods_of(thing):
                    first = text_of(member).split("\n\n")[0].replace("\n", " ")
                    lines.append(f"- `{signature_of(method, member)}`: {first}")
                lines.append("")
    missing = sorted(set(gs.__all__) - listed)
    assert not missing, f"not in any group: {missing}"
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


if __name__ == "__main__":
    print(render(), end="")
