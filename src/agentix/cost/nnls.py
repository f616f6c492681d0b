"""Non-negative least squares of a few unknowns, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

Matrix = Sequence[Sequence[int]]


def nonnegative_least_squares(gram: Matrix, target: Sequence[int]) -> list[Fraction]:
    """The c ≥ 0 that minimises |Xc - y|², from the normal equations gram = XᵀX and target = Xᵀy in whole numbers.

    At the optimum c solves ordinary least squares on the columns where it is positive. So every set of columns is
    solved, those with a negative coefficient or dependent columns are dropped, and the best of the rest is it: the one
    with the largest targetᵀc, because |Xc - y|² = |y|² - targetᵀc there. Of equally good sets the smaller wins, then
    the one with earlier columns. 2^n systems of n unknowns: made for n ≤ 8. Fractions, because the columns of a
    step-time model differ by a factor of a million and floats would lose the small coefficients.
    """
    best, best_gain = [Fraction(0)] * len(target), Fraction(0)
    for size in range(1, len(target) + 1):
        for columns in combinations(range(len(target)), size):
            solution = _solve([[gram[i][j] for j in columns] for i in columns], [target[i] for i in columns])
            if solution is None or min(solution) <= 0:
                continue
            gain = sum((target[i] * c for i, c in zip(columns, solution, strict=True)), Fraction(0))
            if gain > best_gain:
                chosen = dict(zip(columns, solution, strict=True))
                best, best_gain = [chosen.get(i, Fraction(0)) for i in range(len(target))], gain
    return best


def dependent_columns(gram: Matrix) -> list[int]:
    """Columns of X that the others can express (a column of zeros is one): their coefficients are not determined."""
    everything = range(len(gram))
    rank = _rank(gram, everything)
    return [left_out for left_out in everything if _rank(gram, [i for i in everything if i != left_out]) == rank]


def _rank(gram: Matrix, columns: Sequence[int]) -> int:
    reduced = _reduce([[Fraction(gram[i][j]) for j in columns] for i in columns])
    return sum(reduced[i][i] != 0 for i in range(len(columns)))


def _solve(matrix: Matrix, right: Sequence[int]) -> list[Fraction] | None:
    """Solution of a symmetric positive semi-definite system, or None if it is singular."""
    rows = _reduce([[Fraction(value) for value in (*row, r)] for row, r in zip(matrix, right, strict=True)])
    if any(rows[i][i] == 0 for i in range(len(rows))):
        return None
    return [row[-1] / row[i] for i, row in enumerate(rows)]


def _reduce(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """Gauss-Jordan without row exchange: in a positive semi-definite matrix a zero pivot has only zeros beside it."""
    for pivot in range(len(rows)):
        if rows[pivot][pivot] == 0:
            continue
        for i, row in enumerate(rows):
            if i != pivot and row[pivot] != 0:
                factor = row[pivot] / rows[pivot][pivot]
                rows[i] = [a - factor * b for a, b in zip(row, rows[pivot], strict=True)]
    return rows
