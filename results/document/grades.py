"""Grades: one letter for how well a number is known."""

from __future__ import annotations

GRADES = (("A", 0.05), ("B", 0.15), ("C", 0.50))  # and how far the ends of the 95% interval are from the number at most
NOT_KNOWN = "?"
PRECISE_SHARE = GRADES[1][1]  # a number whose interval is wider is imprecise
FAIR = GRADES[2][0]  # the best grade of a number that changed while it was measured
MEANING = (
    "Grade: the 95% interval of the rate is within "
    + ", ".join(f"{letter} {share:.0%}" for letter, share in GRADES)
    + f"; {NOT_KNOWN} wider, or not known."
)


def grade_of(within: float | None) -> str:
    """Return the grade of a number whose 95% interval ends within this share of it; None: its interval is not known."""
    return next((letter for letter, share in GRADES if within is not None and within <= share), NOT_KNOWN)


def worst_grade(grades: list[str]) -> str:
    """Return the worst of these grades; at least one."""
    letters = [*(letter for letter, _ in GRADES), NOT_KNOWN]
    return max(grades, key=letters.index)
