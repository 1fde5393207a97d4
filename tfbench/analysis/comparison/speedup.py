"""What may be said of the speed of one setup beside another's, once it was judged.

Source: Schuirmann, "A comparison of the two one-sided tests procedure and the power approach for assessing the
equivalence of average bioavailability" (Journal of Pharmacokinetics and Biopharmaceutics 1987).
"""

import dataclasses
import math
from typing import Literal

from tfbench.analysis.comparison.intervals import CONFIDENCE

Judgement = Literal["faster", "slower", "no measurable difference", "not judged"]
Finding = Literal["faster", "slower", "no measurable difference", "too noisy to tell", "not judged"]

# Within 0.8 to 1.25 on both sides lies what may be called as fast: nearer than that nobody chooses a device for its
# speed, and it is what studies ask of an interval of ratios before they call two things equivalent (Schuirmann 1987).
EQUAL_WITHIN = 1.25

ALPHA = 1 - CONFIDENCE


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Speedup:
    """The second setup's speed over the first's, and what may be said of it.

    `low` and `high` bound the ratio of this one setting, by all that is known of how runs scatter; None: nothing is.
    `judgement` is what the whole family of comparisons supports.
    """

    ratio: float
    low: float | None
    high: float | None
    num: int  # of rounds, or of the runs of the setup that has fewer
    is_paired: bool  # by rounds in which both were run
    uses_other_settings: bool  # for how runs scatter
    degrees_of_freedom: float
    p_value: float | None  # of this one setting
    family_p_value: float | None
    num_family: int  # comparisons that were judged together
    judgement: Judgement
    # Half of the intervals of the logarithms of both speeds, by the same scatter as that of the ratio.
    speed_half_widths: tuple[float, float] | None = None
    confidence: float = CONFIDENCE

    @property
    def excludes_one(self) -> bool:
        """Whether the interval of this one setting excludes that the setups are equally fast."""
        return self.p_value is not None and self.p_value <= ALPHA

    @property
    def is_suggested(self) -> bool:
        """Whether the interval of this one setting says what the family does not support."""
        return self.excludes_one and self.judgement == "no measurable difference"

    @property
    def is_too_noisy(self) -> bool:
        """Whether nothing is shown since the interval is wide, not since the setups are about equally fast."""
        if self.judgement != "no measurable difference" or self.excludes_one or self.low is None or self.high is None:
            return False
        return self.high > EQUAL_WITHIN or self.low < 1 / EQUAL_WITHIN

    @property
    def finding(self) -> Finding:
        """The judgement as people are told it: no difference that was seen may be one that could not be."""
        return "too noisy to tell" if self.is_too_noisy else self.judgement

    @property
    def noise_limit(self) -> float | None:
        """The relative difference that these runs would not show, 0.02 for 2 %: half of the interval."""
        return None if self.high is None else math.expm1(math.log(self.high / self.ratio))

    @property
    def method(self) -> str:
        """How the interval came about, in words."""
        what = "rounds' ratios" if self.is_paired else "processes' speeds"
        others = ", the scatter of the other settings" if self.uses_other_settings else ""
        known = f"{what}{others}; {self.degrees_of_freedom:.3g} degrees of freedom"
        return f"Student's t on the logarithms of the {known}"


def describe_ratio(one: Speedup) -> str:
    """Returns "0.68x [0.59, 0.77]", the ratio alone where it has no interval."""
    return f"{one.ratio:.2f}x" + ("" if one.low is None or one.high is None else f" [{one.low:.2f}, {one.high:.2f}]")
