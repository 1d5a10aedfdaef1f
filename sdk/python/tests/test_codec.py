"""Values as JSON by their type hints."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import decimal
import enum
import typing
import uuid
from typing import Any, Literal, NamedTuple, Optional, TypedDict, Union

import pytest
from conftest import opened

import goldseam as gs
from goldseam._codec import form_of, schema_of

CODEC = gs.JsonCodec()


class Color(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: float


class Movie(TypedDict):
    name: str
    year: int


@dataclasses.dataclass
class Line:
    item: str
    price: decimal.Decimal
    color: Color = Color.RED


@dataclasses.dataclass
class Order:
    id: uuid.UUID
    at: dt.datetime
    lines: list[Line]
    by: dict[str, tuple[int, str]]
    note: Optional[str] = None


ORDER = Order(
    uuid.UUID(int=7),
    dt.datetime(2026, 11, 18, 6, 0, tzinfo=dt.timezone.utc),
    [Line("pen", decimal.Decimal("1.10"))],
    {"a": (1, "x")},
)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (None, None), (True, bool), (7, int), (2**70, int), (0.1, float), ("ü\u2028", str), (b"\x00\xff", bytes),
        ([1, 2], list[int]), ((1, "a"), tuple[int, str]), ((1, 2, 3), tuple[int, ...]), ({1, 2}, set[int]),
        ({"a": [1]}, dict[str, list[int]]), ({1: "a"}, dict[int, str]), (Color.RED, Color), (Point(1, 2.5), Point),
        ({"name": "x", "year": 1}, Movie), (ORDER, Order), (dt.date(2026, 1, 2), dt.date), (dt.timedelta(hours=1), dt.timedelta),
        ("a", Literal["a", "b"]), (None, Optional[int]), (3, Union[int, str]), ("3", Union[int, str]), ("3", "int | str"),
        (decimal.Decimal("1.23"), decimal.Decimal), (typing.cast(Any, {"x": 1}), Any),
    ],
)  # fmt: skip
def test_values_come_back_as_their_types(value: Any, hint: Any) -> None:
    hint = eval(hint) if isinstance(hint, str) else hint
    encoded = CODEC.encode(value)
    assert CODEC.decode(encoded, hint) == value
    assert type(CODEC.decode(encoded, hint)) is type(value) or value is None


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "\ud800", {"\ud800": 1}, object(), {object(): 1}, [lambda: 1], {(1, 2): 3}]
)
def test_values_without_json_are_refused_with_a_code(value: Any) -> None:
    with pytest.raises(gs.CodecError) as caught:
        CODEC.encode(value)
    assert caught.value.code == "GS0634"


@pytest.mark.parametrize(
    ("data", "hint"),
    [("x", int), (1, str), (True, int), (1.5, int), ([1], dict[str, int]), ({"item": 1}, Line), ("blue", Color),
     ("x", dt.datetime), ("c", Literal["a"]), ({"name": "x"}, Movie), ([1], tuple[int, int]), ("!", bytes)],
)  # fmt: skip
def test_data_of_another_type_is_refused(data: Any, hint: Any) -> None:
    with pytest.raises(gs.CodecError):
        CODEC.decode(data, hint)


def test_pydantic_models_are_read_and_written() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        at: dt.datetime
        inner: list["Line"]

    value = Model(at="2026-01-01T00:00:00Z", inner=[Line("x", decimal.Decimal(2))])
    assert CODEC.decode(CODEC.encode(value), Model) == value


def test_forms_come_from_types() -> None:
    assert form_of(str, None) == "text" and form_of(Any, None) == "any"
    assert form_of(Literal["a", "b"], None) == {"choice": ["a", "b"]} and form_of(str, ["x"]) == {"choice": ["x"]}
    assert form_of(bool, None) == {"schema": {"type": "boolean"}}
    schema = schema_of(Line)
    assert schema is not None and "item" in schema["properties"] and "color" not in schema["required"]


def test_a_replaced_codec_hides_payloads(sqlite_url: str) -> None:
    class Rot13:
        def encode(self, value: Any) -> Any:
            import codecs
            import json

            return codecs.encode(json.dumps(CODEC.encode(value)), "rot13")

        def decode(self, data: Any, hint: Any) -> Any:
            import codecs
            import json

            return CODEC.decode(json.loads(codecs.decode(data, "rot13")), hint)

    @gs.step
    async def hush(word: str) -> str:
        return f"{word} word"

    @gs.workflow
    async def job(word: str) -> str:
        return await hush(word)

    async def main() -> None:
        async with opened(sqlite_url, job, codec=Rot13()) as engine:
            run = await engine.start(job, "secret")
            assert await run.result(60) == "secret word"
            assert "secret" not in str(await run.history())

    asyncio.run(main())
