"""Hooks of schemathesis: shorten long polls, and accept requests with unknown headers."""

import schemathesis

SHORT_MS = 20
UNKNOWN = "x-schemathesis-unknown-property"


def shorten(values):
    wait = values.get("wait_ms") if isinstance(values, dict) else None
    if isinstance(wait, int) and not isinstance(wait, bool) and SHORT_MS < wait <= 60_000:
        values["wait_ms"] = SHORT_MS


@schemathesis.hook
def before_call(context, case, **kwargs):
    shorten(case.query)
    shorten(case.body)
    # HTTP allows any header, so a server must not refuse a request for this one.
    if case.headers and case.headers.pop(UNKNOWN, None) is not None and case.meta:
        case.meta.generation.mode = schemathesis.GenerationMode.POSITIVE
