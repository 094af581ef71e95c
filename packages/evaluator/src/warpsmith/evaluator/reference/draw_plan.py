"""What the judge asks of the numbers that `get_inputs` makes: the plan of one input set. Importable without torch.

A **site** is a place in the problem's source that makes numbers: a random draw, a table, a constant, a written list.
Its **level** says how far its numbers may go. A plan gives each site a level and all of them one kind of change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec

Kind = Literal["plain", "shifted", "scaled", "outliers", "rows", "small", "everything"]
KINDS: Final[tuple[str, ...]] = get_args(Kind)
VARIED: Final[tuple[Kind, ...]] = ("shifted", "outliers", "rows", "scaled")
"""The kinds of a trial; `everything` mixes them in one input set, to find out what a problem bears."""
WITHOUT_TIES: Final[tuple[Kind, ...]] = ("shifted", "outliers", "small", "scaled")
"""Those of a trial whose answer rests on the order of numbers: none makes some equal."""

PLAIN: Final = 0
IN_RANGE: Final = 1
"""Another distribution within the range of a draw; other numbers where it is no draw."""
SAME_SIGN: Final = 2
ANY_SIGN: Final = 3
"""Of either sign, and no row of zeros: what is divided by the norm of one is not finite."""
ANYWHERE: Final = 4
FAR: Final = 5
"""So far that `exp` of it overflows single precision: a reference that subtracts the maximum bears it."""
LISTS: Final = "list "
"""How the names of the sites begin that are lists of integers in the problem's source."""
MOST_SITES: Final = 64


@dataclass(frozen=True)
class DrawPlan:
    """How one input set is made.

    Attributes:
        kind: how varied sites change.
        levels: how far each may go, by the site's name.
        default: the level of sites that have no entry.
        on_grid: whether floating draws are then rounded to multiples of a power of two.
    """

    kind: Kind = "plain"
    levels: Mapping[str, int] = field(default_factory=dict)
    default: int = PLAIN
    on_grid: bool = False

    def level(self, site: str, most: int) -> int:
        """Return the level of a site that bears `most`; 0 in a plain input set."""
        return PLAIN if self.kind == "plain" else min(self.levels.get(site, self.default), most)

    def to_wire(self) -> dict[str, Any]:
        return {"kind": self.kind, "levels": dict(self.levels), "default": self.default, "on_grid": self.on_grid}

    @staticmethod
    def from_wire(fields: codec.Fields) -> "DrawPlan":
        """Return the plan that `to_wire` wrote; WireError if it is none."""
        kind, levels = fields.text("kind", 20), fields.mapping("levels")
        if kind not in KINDS or not all(isinstance(level, int) for level in levels.values()):
            raise WireError(f"{kind!r} with {len(levels)} levels is no plan of draws.")
        return DrawPlan(kind, levels, fields.integer("default"), fields.flag("on_grid"))  # type: ignore[arg-type]


PLAINLY: Final = DrawPlan()


def sites_of(told: Mapping[str, Any]) -> dict[str, int]:
    """Return the sites that a reference worker told of, with the highest level of each; what is none is left out."""
    sound = [(site, most) for site, most in told.items() if type(most) is int and PLAIN <= most <= FAR]
    return dict(sound[:MOST_SITES])
