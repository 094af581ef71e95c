"""Names from a registry, as the type of a configuration key. Needs pydantic, which this package does not."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpsmith.records.errors import UsageError
from warpsmith.records.registry import Registry

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


@dataclass(frozen=True)
class Choices:
    """Marks a text, in `Annotated[str, Choices(REGISTRY)]`, as the name of a part that some installed package provides.

    Validation looks up names and imports no part; a schema lists them.

    Args:
        registry: has the names.
    """

    registry: Registry[Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are installed now, sorted."""
        return self.registry.names()

    def _check(self, name: str) -> str:
        try:
            return self.registry.check_name(name)
        except UsageError as error:
            raise ValueError(f"{error.message.removesuffix('.')}. {error.remedy}") from error

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        """Add the check to the schema of a text."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> "JsonSchemaValue":
        """Add the names."""
        return {**handler(schema), "enum": list(self.names)}
