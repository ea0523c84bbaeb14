"""What owning and renting cost beside prices: depreciation, spares, people, set-up, support, financing, tax."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from problems import units
from problems.base import Fault, Strict
from problems.picks import or_else

Depreciation = Literal["cash", "straight_line", "annuity"]
PartClass = Literal["server", "network", "storage", "facility"]
PART_CLASSES: tuple[PartClass, ...] = ("server", "network", "storage", "facility")
EVERY_PROVIDER = "any"


class _Shorthand(Strict):
    """A model that may be written as one value, which then holds for all of its keys."""

    PLAIN: ClassVar[dict[str, Any]] = {"anyOf": [{"type": "number"}, {"type": "string"}]}

    @model_validator(mode="before")
    @classmethod
    def _one_for_all(cls, value: Any) -> Any:
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        return dict.fromkeys(cls.model_fields, value) if plain else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        reference = super().__get_pydantic_json_schema__(core, handler)
        return or_else(reference, handler, cls.PLAIN)


class ClassShares(_Shorthand):
    """A share for each class of parts; one value stands for all. Racks, circuits and cooling are facility."""

    server: units.Ratio | None = Field(default=None, ge=0, le=1)
    network: units.Ratio | None = Field(default=None, ge=0, le=1)
    storage: units.Ratio | None = Field(default=None, ge=0, le=1)
    facility: units.Ratio | None = Field(default=None, ge=0, le=1)


class ClassLives(_Shorthand):
    """Useful life of each class of parts [months]; one value stands for all."""

    server: units.Months | None = Field(default=None, ge=1, le=600, examples=["5y"])
    network: units.Months | None = Field(default=None, ge=1, le=600, examples=["7y"])
    storage: units.Months | None = Field(default=None, ge=1, le=600, examples=["5y"])
    facility: units.Months | None = Field(default=None, ge=1, le=600, examples=["15y"])


class Staff(Strict):
    """People who run own machines: `persons` as soon as there are any, `per_node` for each server; `salary` all in."""

    salary: units.MoneyPerYear = Field(examples=["$120k/yr"])
    persons: units.Number = Field(default=0.0, ge=0, examples=[0.25])
    per_node: units.Number = Field(default=0.0, ge=0, examples=[0.02])

    @classmethod
    def _faults(cls, given: Mapping[str, Any]) -> Iterator[Fault]:
        if "persons" not in given and "per_node" not in given:
            yield (), "staff needs persons, per_node or both"


class Setup(Strict):
    """Paid once: for each own site in use, each bought server, each provider rented from."""

    site: units.Money | None = Field(default=None, examples=["$30k"])
    node: units.Money | None = Field(default=None, examples=["$500"])
    provider: units.Money | None = Field(default=None, examples=["$5k"])


class Spares(Strict):
    """`parts`: spares bought with the machines, as a share of their price. `nodes` of every kind of own server held at a
    site, and no less than `node_share` of its working ones, stand by idle.
    """

    parts: ClassShares = ClassShares.model_construct()
    nodes: units.Whole = Field(default=0, ge=0)
    node_share: units.Ratio = Field(default=0.0, ge=0, le=1, examples=["5%"])


class ProviderTerms(Strict):
    """What a provider costs beside its prices.

    `support` on top of the bill; `fee` per month while anything is rented there; prices are divided by `goodput`, the share
    of paid time in which work gets on; `setup` once.
    """

    support: units.Ratio = Field(default=0.0, ge=0, le=1, examples=["10%"])
    fee: units.MoneyPerMonth | None = Field(default=None, examples=["$1k/mo"])
    goodput: units.Ratio = Field(default=1.0, gt=0, le=1, examples=["96%"])
    setup: units.Money | None = Field(default=None, examples=["$5k"])


class Financing(Strict):
    """Purchases paid in part up front, the rest in equal months over `term` (default, and at most: the horizon)."""

    upfront: units.Ratio = Field(ge=0, le=1, examples=["30%"])
    rate: units.Ratio = Field(default=0.0, ge=0, le=1, examples=["6%"])
    term: units.Months | None = Field(default=None, gt=0, le=600, examples=["36mo"])


class Tax(_Shorthand):
    """Tax that is not got back, on what is bought and on what is rented (services of providers included)."""

    purchase: units.Ratio = Field(default=0.0, ge=0, le=1, examples=["8%"])
    rental: units.Ratio = Field(default=0.0, ge=0, le=1, examples=["20%"])


class Tco(Strict):
    """Total cost of ownership: what comes on top of prices, and what bought things are worth at the end of the horizon.

    Under `cash` a purchase is paid and `residual` of its price comes back at the end. Under `straight_line` and `annuity` it
    is worn off over its `life`: what is not yet worn off at the end is credited, and what wears out before is bought again;
    `residual` is then left at the end of the life. An annuity is at policy.discount_rate. `residual` by class of parts
    overrides policy.residual_value; `maintenance` is per year, of the price.
    """

    depreciation: Depreciation = "cash"
    life: ClassLives = ClassLives.model_construct()
    residual: ClassShares = ClassShares.model_construct()
    maintenance: ClassShares = ClassShares.model_construct()
    spares: Spares = Spares.model_construct()
    staff: Staff | None = None
    setup: Setup = Setup.model_construct()
    providers: dict[str, ProviderTerms] = Field(default_factory=dict)
    financing: Financing | None = None
    tax: Tax = Tax.model_construct()

    def provider(self, name: str) -> ProviderTerms:
        """Terms of a provider: its own, else those of `any`, else none."""
        low = name.lower()
        own = next((terms for key, terms in self.providers.items() if key.lower() == low), None)
        return own or self.providers.get(EVERY_PROVIDER) or ProviderTerms()

    def surcharges(self, provider: str) -> dict[str, float]:
        """What comes on top of one unit of a provider's price: goodput, support and tax, each as a share of the price.

        The price is divided by goodput, support is on the result, tax on both.
        """
        terms = self.provider(provider)
        paid = 1.0 / terms.goodput
        support = paid * terms.support
        return {"goodput": paid - 1.0, "support": support, "tax": (paid + support) * self.tax.rental}
