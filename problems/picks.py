"""Small shared shapes of the problem file: allow and deny lists, and shorter ways to write a model."""

from __future__ import annotations

from typing import Any

from pydantic import GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from problems.base import Names, Strict


def or_else(reference: dict[str, Any], handler: GetJsonSchemaHandler, *others: dict[str, Any]) -> dict[str, Any]:
    """JSON schema of a model that may be written in `others` shorter ways too."""
    schema = handler.resolve_ref_schema(reference)
    whole = dict(schema)
    schema.clear()
    schema.update({"anyOf": [*others, whole], "title": whole.get("title", "")})
    return reference


class Pick(Strict):
    """An allow list, a deny list, or both (deny wins)."""

    allow: Names | None = None
    deny: Names = ()

    @model_validator(mode="before")
    @classmethod
    def _plain_list(cls, value: Any) -> Any:
        return {"allow": value} if isinstance(value, str | list | tuple) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        reference = super().__get_pydantic_json_schema__(core, handler)
        return or_else(reference, handler, {"type": "string"}, {"type": "array", "items": {"type": "string"}})


def is_name(value: Any) -> bool:
    """Text, or a number that stands for text (``accelerator: 4090``)."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)
