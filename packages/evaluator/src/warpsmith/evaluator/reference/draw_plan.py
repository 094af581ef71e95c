"""The judge's plan for the numbers that `get_inputs` makes for one input set. Importable without torch.

A **site** is a place in the problem's source that makes numbers: a random draw, a table, a constant, a literal list.
Its **level** bounds how far its numbers may vary. A plan sets a level per site and one kind of change for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.reference.levels import FAR, PLAIN
from warpsmith.evaluator.reference.telling_numbers import MOST_WRITTEN

Kind = Literal[
    "plain",
    "shifted",
    "scaled",
    "outliers",
    "rows",
    "small",
    "tiny",
    "distant",
    "apart",
    "whole",
    "lasting",
    "selected",
    "everything",
]
KINDS: Final[tuple[str, ...]] = get_args(Kind)
VARIED: Final[tuple[Kind, ...]] = ("shifted", "outliers", "rows", "distant", "scaled")
"""The kinds of a trial; `everything` mixes them in one input set, to find out what a problem tolerates."""
WITHOUT_TIES: Final[tuple[Kind, ...]] = ("shifted", "outliers", "tiny", "apart", "scaled")
"""The kinds of a trial for answers that depend on the order of numbers: none makes numbers equal."""
SIGNED: Final[frozenset[Kind]] = frozenset({"shifted", "distant", "apart"})
"""Kinds that give most numbers of a draw one sign; among several draws, some take the other sign."""

WHOLLY_FAR: Final[frozenset[Kind]] = frozenset({"distant", "apart"})
"""Kinds that move a draw as a whole far from zero."""
ALL_OPPOSED: Final = 3
"""Every draw to which a kind gives one sign takes the other one."""

LISTS: Final = "list "
"""Prefix of sites that are lists of integers in the problem's source."""
INPUTS: Final = "input "
"""Prefix of sites that are whole structured inputs that can have other values: masks, positions, by their place."""
PLAIN_NUMBERS: Final = "number "
"""Prefix of sites that are plain floating numbers among the inputs."""
PLAIN_INTEGERS: Final = "number of "
"""The same for plain integers and truth values; a candidate may refuse values other than the sample's."""
RENUMBERED: Final[frozenset[Kind]] = frozenset({"scaled", "everything"})
"""Kinds that change plain numbers: each needs its own recording, as trials of other shapes do anyway."""
LASTING: Final[frozenset[Kind]] = frozenset({"outliers", "lasting"})
"""Kinds in which some slices keep a memory: most of their other numbers stay as `get_inputs` makes them."""
PAIRS: Final = 1
ALIKE: Final = 2
PAIRED: Final[Mapping[Kind, tuple[int, ...]]] = {
    "scaled": (PAIRS, ALIKE, ALIKE),
    "shifted": (PAIRS, ALIKE, ALIKE),
    "rows": (0, PAIRS, PAIRS),
    "tiny": (0, PAIRS, PAIRS),
}
"""Kinds in which products of neighbours may cancel, and how: one of several ways, at random."""
TAILED: Final[tuple[Kind, ...]] = ("scaled", "shifted")
"""Kinds whose numbers half precision rounds in one direction. Where products cancel, that shows nothing."""
NEAR_ONE: Final = 1
MODERATE_TOO: Final = 2
"""A product of moderate numbers overflows, and a sum of gates does not."""
MASKS: Final = "mask"
"""Site of a mask that a draw decides: a toss, or the comparison of a random number."""
UNSEEN_MASKS: Final = "mask unseen"
"""The same where comparisons are not seen: draws of NumPy, and those of Python that become no tensor."""
MOST_SITES: Final = 64


@dataclass(frozen=True)
class DrawPlan:
    """How one input set is made.

    Attributes:
        kind: how varied sites change.
        levels: level by name of site.
        default: level of sites without an entry.
        on_grid: whether floating draws are then rounded to multiples of a power of two.
        ends: whether draws of a range that are kept in it, or to its signs, hold its ends.
        paired: whether products of neighbours cancel (`PAIRS`), and whether most rows are alike besides (`ALIKE`).
        lasting: which slices keep a memory, if the kind is one of `LASTING`: those of numbers near one, from `NEAR_ONE`
            on; those of numbers at moderate distances too, of `MODERATE_TOO`.
        selects: what masks select of some slices (`selected_slices.py`), if the kind is `selected`; 0 for what they do.
        sparse: the site with only a few slices, along its first dimension, on a grid; some of them begin with a zero.
        opposed: whether some of the draws that a kind gives one sign take the other one: 0 for none, else 1 or 2 for
            the odd or the even ones of several, ALL_OPPOSED for all. A single distant one is negative for 0.
        remote: power of two of the distance of remote rows in a far draw, in standard deviations; 0 for no such row.
        numbers: seed of the plain numbers, so that host code can see a trial's numbers with tensors of no trial.
        written: numbers of the candidate's source, planted in some elements of each draw whose range has them.
    """

    kind: Kind = "plain"
    levels: Mapping[str, int] = field(default_factory=dict)
    default: int = PLAIN
    on_grid: bool = False
    opposed: int = 0
    remote: int = 0
    numbers: int = 0
    written: tuple[float, ...] = ()
    sparse: str = ""
    ends: bool = False
    lasting: int = MODERATE_TOO
    paired: int = 0
    selects: int = 0

    def level(self, site: str, most: int) -> int:
        """Return the level of a site that allows at most `most`; 0 in a plain input set."""
        return PLAIN if self.kind == "plain" else min(self.levels.get(site, self.default), most)

    @property
    def lasts(self) -> bool:
        """Whether some slices of the draws keep a memory."""
        return self.lasting > 0 and self.kind in LASTING

    def to_wire(self) -> dict[str, Any]:
        bounds = {"levels": dict(self.levels), "default": self.default}
        chosen = {"opposed": self.opposed, "remote": self.remote, "numbers": self.numbers}
        return {
            "kind": self.kind,
            **bounds,
            "on_grid": self.on_grid,
            **chosen,
            "written": list(self.written),
            "sparse": self.sparse,
            "ends": self.ends,
            "lasting": self.lasting,
            "paired": self.paired,
            "selects": self.selects,
        }

    def with_tensors_as_made(self) -> "DrawPlan":
        """Return the plan of an input set with the same plain numbers, and tensors unchanged from `get_inputs`."""
        levels = {site: level for site, level in self.levels.items() if site.startswith(PLAIN_NUMBERS)}
        return DrawPlan(self.kind, levels, numbers=self.numbers)

    @staticmethod
    def from_wire(fields: codec.Fields) -> "DrawPlan":
        """Return the plan that `to_wire` wrote; WireError if it is invalid."""
        kind, levels = fields.text("kind", 20), fields.mapping("levels")
        if kind not in KINDS or not all(isinstance(level, int) for level in levels.values()):
            raise WireError(f"{kind!r} with {len(levels)} levels is not a plan of draws.")
        written = fields.sequence("written", MOST_WRITTEN)
        if not all(type(number) in {int, float} for number in written):
            raise WireError("A plan of draws names something that is not a number.")
        opposed, remote, numbers = (fields.integer(name) for name in ("opposed", "remote", "numbers"))
        on_grid, default = fields.flag("on_grid"), fields.integer("default")
        chosen = (opposed, remote, numbers, tuple(written), fields.text("sparse"))
        how = (fields.flag("ends"), fields.integer("lasting"), fields.integer("paired"), fields.integer("selects"))
        return DrawPlan(kind, levels, default, on_grid, *chosen, *how)  # type: ignore[arg-type]


PLAINLY: Final = DrawPlan()


def sites_of(reported: Mapping[str, Any]) -> dict[str, int]:
    """Return the sites that a reference worker reported, with the highest level of each; drop malformed entries."""
    sound = [(site, most) for site, most in reported.items() if type(most) is int and PLAIN <= most <= FAR]
    return dict(sound[:MOST_SITES])
