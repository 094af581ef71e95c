"""Levels: how far the numbers of one site may vary, from not at all to far beyond the problem's own."""

from typing import Final

AS_MADE: Final = -1
"""Not even rounded to a grid, which the other sites of a plan may be."""
PLAIN: Final = 0
IN_RANGE: Final = 1
"""Another distribution within the range of a draw; other values if the site is not a draw."""
SAME_SIGN: Final = 2
ANY_SIGN: Final = 3
"""Either sign, but no row of zeros: dividing by its norm is not finite."""
ANYWHERE: Final = 4
FAR_IN_HALF: Final = 5
"""So far that `exp` overflows in single precision, but no product of two overflows in half precision."""
FAR: Final = 6
"""So far that `exp` overflows in single precision; a reference that subtracts the maximum tolerates it."""
