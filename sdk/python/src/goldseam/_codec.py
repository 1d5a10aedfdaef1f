"""Values as JSON, by their type hints: pydantic models if pydantic is installed, and the types of the standard library.

A codec has two methods, so a program can replace it, for example to encrypt values.
"""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import inspect
import json
import types
import typing
import uuid
from typing import Any, Protocol

from ._errors import CodecError

_pydantic: Any
try:
    import pydantic as _pydantic
except ImportError:  # pydantic is optional
    _pydantic = None

_NONE = type(None)
#: Python reads back integers of up to 4,300 decimal digits.
_INT_BITS_MAX = 14_000


class Codec(Protocol):
    """Writes values as JSON and reads them back by their type."""

    def encode(self, value: Any) -> Any:
        """Returns the value as JSON data: dicts, lists, strings, numbers, booleans, None."""
        ...

    def decode(self, data: Any, hint: Any) -> Any:
        """Returns the value of type ``hint`` from JSON data."""
        ...


class JsonCodec:
    """The default codec."""

    def encode(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind is bool or (kind is str and value.isascii()):
            return value
        if kind is int and -(2**63) <= value < 2**63:
            return value
        try:
            return _encode(value)
        except RecursionError:
            raise CodecError("a value contains itself, or is nested too deeply", hint="pass ids instead of objects") from None

    def decode(self, data: Any, hint: Any) -> Any:
        if hint is Any or hint is None or hint is object:
            return data
        kind = type(data)
        if hint is kind and (kind is str or kind is bool or kind is int):
            return data
        return _decode(data, hint)


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return _text(value)
    if isinstance(value, enum.Enum):
        return _encode(value.value)
    if isinstance(value, int):
        if value.bit_length() > _INT_BITS_MAX:
            raise CodecError(f"an integer has {value.bit_length()} bits", hint="pass a string or bytes")
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise CodecError(f"{value} is not a number of JSON", hint="pass None or a string")
        return value
    if _pydantic is not None and isinstance(value, _pydantic.BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, collections.abc.Mapping):
        made = {_key(key): _encode(item) for key, item in value.items()}
        if len(made) != len(value):
            raise CodecError("two keys of a mapping are the same text in JSON", hint="use keys of one type")
        return made
    if isinstance(value, (set, frozenset)):
        # The order of a set differs between processes; the log must not.
        items = [_encode(item) for item in value]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(value, (list, tuple, collections.abc.Sequence)):
        return [_encode(item) for item in value]
    if _pydantic is not None:
        try:
            made = _pydantic.TypeAdapter(type(value)).dump_python(value, mode="json")
        except Exception:
            made = value
        if made is not value:
            return made
    if inspect.isawaitable(value):
        raise CodecError("a coroutine cannot be written as JSON: its result is missing", hint="write await before the call")
    raise CodecError(
        f"a value of type {type(value).__qualname__} cannot be written as JSON",
        hint="use a dataclass, a pydantic model or types of JSON, or pass your own codec",
    )


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise CodecError("a text has half a surrogate pair, which is not Unicode", hint="pass bytes instead") from None
    return value


def _key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return _text(key)
    if isinstance(key, (int, uuid.UUID, dt.date, decimal.Decimal)) and not isinstance(key, bool):
        return _encode(key) if not isinstance(key, int) else str(key)
    raise CodecError(f"a key of type {type(key).__qualname__} cannot be written as JSON")


@functools.lru_cache(maxsize=1024)
def _adapter(hint: Any) -> Any:
    return _pydantic.TypeAdapter(hint)


@functools.lru_cache(maxsize=1024)
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _fail(data: Any, hint: Any, why: str = "") -> CodecError:
    shown = json.dumps(data, default=str)[:200]
    return CodecError(f"cannot read {shown} as {getattr(hint, '__qualname__', hint)}{': ' + why if why else ''}")


def _is_model(hint: Any) -> bool:
    return _pydantic is not None and isinstance(hint, type) and issubclass(hint, _pydantic.BaseModel)


def _decode(data: Any, hint: Any) -> Any:
    if hint is Any or hint is object or type(hint) is typing.TypeVar:
        return data
    if hint is None or hint is _NONE:
        if data is None:
            return None
        raise _fail(data, hint)
    origin = typing.get_origin(hint)
    if origin is not None:
        return _decode_generic(data, hint, origin)
    if _is_model(hint):
        try:
            return hint.model_validate(data, strict=False)
        except Exception as error:
            raise _fail(data, hint, str(error)) from None
    if hasattr(hint, "__supertype__"):
        return _decode(data, hint.__supertype__)
    if isinstance(hint, type):
        return _decode_class(data, hint)
    return _with_pydantic(data, hint)


def _with_pydantic(data: Any, hint: Any) -> Any:
    if _pydantic is None:
        return data
    try:
        return _adapter(hint).validate_python(data)
    except Exception as error:
        raise _fail(data, hint, str(error)) from None


def _decode_generic(data: Any, hint: Any, origin: Any) -> Any:
    args = typing.get_args(hint)
    if origin is typing.Annotated or origin is typing.Final:
        return _with_pydantic(data, hint) if _pydantic is not None else _decode(data, args[0])
    if origin is typing.Union or origin is types.UnionType:
        return _decode_union(data, hint, args)
    if origin is typing.Literal:
        if data in args:
            return data
        raise _fail(data, hint)
    if not isinstance(origin, type):
        return _with_pydantic(data, hint)
    if issubclass(origin, tuple):
        if not isinstance(data, list):
            raise _fail(data, hint)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_decode(item, args[0]) for item in data)
        if len(args) != len(data):
            raise _fail(data, hint, f"expected {len(args)} items")
        return tuple(_decode(item, arg) for item, arg in zip(data, args))
    if issubclass(origin, collections.abc.Mapping):
        if not isinstance(data, dict):
            raise _fail(data, hint)
        return {_decode_key(key, args[0]): _decode(item, args[1]) for key, item in data.items()}
    if issubclass(origin, collections.abc.Set):
        if not isinstance(data, list):
            raise _fail(data, hint)
        made = {_decode(item, args[0]) for item in data}
        return frozenset(made) if issubclass(origin, frozenset) else made
    if issubclass(origin, collections.abc.Iterable) and not issubclass(origin, str):
        if not isinstance(data, list):
            raise _fail(data, hint)
        return [_decode(item, args[0]) for item in data]
    return _with_pydantic(data, hint)


def _decode_key(key: str, hint: Any) -> Any:
    if hint is str or hint is Any:
        return key
    if hint is int:
        return int(key)
    return _decode(key, hint)


def _decode_union(data: Any, hint: Any, args: tuple[Any, ...]) -> Any:
    if data is None and (_NONE in args or None in args):
        return None
    exact = [arg for arg in args if isinstance(arg, type) and type(data) is arg]
    for arg in [*exact, *args]:
        if arg is _NONE:
            continue
        try:
            return _decode(data, arg)
        except (CodecError, ValueError, TypeError):
            continue
    raise _fail(data, hint)


def _decode_class(data: Any, hint: Any) -> Any:
    try:
        return _decode_plain(data, hint)
    except CodecError:
        raise
    except (ValueError, TypeError, KeyError, decimal.InvalidOperation) as error:
        raise _fail(data, hint, str(error)) from None


def _decode_plain(data: Any, hint: Any) -> Any:
    if issubclass(hint, enum.Enum):
        return hint(data)
    if hint is bool or hint is str:
        if type(data) is hint:
            return data
        raise _fail(data, hint)
    if hint is int:
        if isinstance(data, int) and not isinstance(data, bool):
            return data
        raise _fail(data, hint)
    if hint is float:
        if isinstance(data, (int, float)) and not isinstance(data, bool):
            return float(data)
        raise _fail(data, hint)
    if hint is bytes:
        return base64.b64decode(data, validate=True)
    if hint in (dt.datetime, dt.date, dt.time):
        text = data[:-1] + "+00:00" if isinstance(data, str) and data.endswith("Z") else data
        return hint.fromisoformat(text)
    if hint is dt.timedelta:
        return dt.timedelta(seconds=data)
    if hint in (decimal.Decimal, uuid.UUID):
        return hint(data)
    if dataclasses.is_dataclass(hint):
        return _decode_dataclass(data, hint)
    if typing.is_typeddict(hint):
        if not isinstance(data, dict):
            raise _fail(data, hint)
        missing = [name for name in hint.__required_keys__ if name not in data]
        if missing:
            raise _fail(data, hint, f"missing {', '.join(sorted(missing))}")
        hints = _hints(hint)
        return {key: _decode(item, hints.get(key, Any)) for key, item in data.items()}
    if hint in (list, set, frozenset, tuple):
        if isinstance(data, list):
            return hint(data)
        raise _fail(data, hint)
    if hint is dict:
        if isinstance(data, dict):
            return data
        raise _fail(data, hint)
    if issubclass(hint, tuple) and hasattr(hint, "_fields"):
        hints = _hints(hint)
        return hint(*(_decode(item, hints.get(name, Any)) for name, item in zip(getattr(hint, "_fields"), data)))
    return _with_pydantic(data, hint)


def _decode_dataclass(data: Any, hint: Any) -> Any:
    if not isinstance(data, dict):
        raise _fail(data, hint)
    hints = _hints(hint)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(hint):
        if field.name in data:
            values[field.name] = _decode(data[field.name], hints[field.name])
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise _fail(data, hint, f"missing {field.name}")
    return hint(**values)


def schema_of(hint: Any) -> dict[str, Any] | None:
    """Returns the JSON Schema of a type, or None if it accepts anything."""
    if hint is Any or hint is object or hint is None:
        return None
    if _pydantic is not None:
        try:
            return dict(_adapter(hint).json_schema())
        except Exception:
            pass
    return _schema(hint)


_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bytes: {"type": "string"},
    list: {"type": "array"},
    dict: {"type": "object"},
    dt.timedelta: {"type": "number"},
    dt.datetime: {"type": "string"},
    dt.date: {"type": "string"},
    dt.time: {"type": "string"},
    decimal.Decimal: {},
    uuid.UUID: {"type": "string"},
    _NONE: {"type": "null"},
}


def _schema(hint: Any) -> dict[str, Any] | None:
    if hint in _SIMPLE:
        return _SIMPLE[hint] or None
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin is typing.Union or origin is types.UnionType:
        parts = [_schema(arg) for arg in args]
        return None if any(part is None for part in parts) else {"anyOf": parts}
    if isinstance(origin, type) and issubclass(origin, (list, tuple, set, frozenset)):
        inner = _schema(args[0]) if args and args[-1] is not Ellipsis and len(args) == 1 else None
        return {"type": "array", **({"items": inner} if inner else {})}
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return {"type": "object"}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [_encode(item) for item in hint]}
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or typing.is_typeddict(hint)):
        hints = _hints(hint)
        properties = {name: _schema(kind) or {} for name, kind in hints.items()}
        if dataclasses.is_dataclass(hint):
            missing = dataclasses.MISSING
            required = [
                field.name
                for field in dataclasses.fields(hint)
                if field.default is missing and field.default_factory is missing
            ]
        else:
            required = sorted(getattr(hint, "__required_keys__"))
        return {"type": "object", "properties": properties, "required": required}
    return None


def form_of(hint: Any, choices: list[str] | None) -> Any:
    """Returns the form of a question's answer."""
    if choices is not None:
        return {"choice": choices}
    if hint is str:
        return "text"
    if typing.get_origin(hint) is typing.Literal and all(isinstance(arg, str) for arg in typing.get_args(hint)):
        return {"choice": list(typing.get_args(hint))}
    schema = schema_of(hint)
    return "any" if schema is None else {"schema": schema}
