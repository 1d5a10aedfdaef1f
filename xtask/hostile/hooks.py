"""Hooks of schemathesis: long polls are kept short, so that the time goes into requests."""

import schemathesis

SHORT_MS = 20


def shorten(values):
    wait = values.get("wait_ms") if isinstance(values, dict) else None
    if isinstance(wait, int) and not isinstance(wait, bool) and SHORT_MS < wait <= 60_000:
        values["wait_ms"] = SHORT_MS


@schemathesis.hook
def before_call(context, case, **kwargs):
    shorten(case.query)
    shorten(case.body)


@schemathesis.hook
def filter_headers(context, headers):
    """HTTP lets a client send headers that a server does not know, so they make no request wrong."""
    return not any(name.lower().startswith("x-schemathesis-unknown") for name in headers or {})
