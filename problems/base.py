"""Base of the problem models: strict keys, empty keys are not given, all faults of a model at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from problems.countries import parse_country

Fault = tuple[tuple[str | int, ...], str]
"""Where in the model (path of keys and indices; () is the model itself) and what is wrong."""


class Strict(BaseModel):
    """Base of every problem model: unknown keys are errors, instances are frozen.

    Validators are built when the first problem is read, all of them once; fields whose default is a model have it by
    `model_construct`, which needs none.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        str_strip_whitespace=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
        defer_build=True,
    )

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        """What is wrong with the keys taken together; looked at even where single fields are wrong too."""
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _all_at_once(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, dict):
            return handler(value)
        fields = cls.model_fields
        given = {k: v for k, v in value.items() if v is not None or k not in fields or fields[k].is_required()}
        lines = [
            InitErrorDetails(type=PydanticCustomError("fault", "{what}", {"what": what}), loc=loc, input=given)
            for loc, what in cls._faults(given)
        ]
        try:
            done = handler(given)
        except ValidationError as error:
            if not lines:
                raise
            for e in error.errors(include_url=False):
                line = InitErrorDetails(type=e["type"], loc=e["loc"], input=e["input"])
                if e["type"] == "fault":
                    line["type"] = PydanticCustomError("fault", "{what}", {"what": e["msg"]})
                elif "ctx" in e:
                    line["ctx"] = e["ctx"]
                lines.append(line)
            raise ValidationError.from_exception_data(cls.__name__, lines) from None
        if lines:
            raise ValidationError.from_exception_data(cls.__name__, lines)
        return done

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """JSON schema with defaults in the forms people write and without bounds on text."""
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        defaults = cls.model_construct()
        for name, part in schema.get("properties", {}).items():
            for option in (part, *part.get("anyOf", ())):
                for bound in ("gt", "ge", "lt", "le"):
                    option.pop(bound, None)
            if part.get("default") is not None:
                part["default"] = defaults.model_dump(mode="json", include={name})[name]
        return reference


def as_list(value: Any) -> Any:
    """A single text where a list is meant becomes a list of one."""
    return [value] if isinstance(value, str) else value


OneOrMore = BeforeValidator(as_list, json_schema_input_type=str | tuple[str, ...])
Names = Annotated[tuple[str, ...], OneOrMore]
"""A list of names; one name may stand without brackets."""
Country = Annotated[str, BeforeValidator(parse_country)]
Countries = Annotated[tuple[Country, ...], OneOrMore]
"""Country codes, ISO 3166-1 alpha-2."""
