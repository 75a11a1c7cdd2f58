"""FS-52: the share of the eigenvalues does not tell the number of factors.

The paper on FedSplit and FedFac (section 4.1, paragraph before equation (7)) takes as the number of common factors the
least number of components whose share of the eigenvalues of the correlation matrix reaches kappa, and tries the kappa
0.5, 0.75, 0.85, 0.9 and 0.95.

Counterexample: four units, any two with the correlation 1/4: one factor with the loading 1/2 on each explains them. The
largest eigenvalue has less than half of the total, so that the rule takes more than one factor for each of these kappa.
"""

from fractions import Fraction

UNITS, FACTORS, LOADING = 4, 1, Fraction(1, 2)
R = [[Fraction(1) if j == k else LOADING * LOADING for k in range(UNITS)] for j in range(UNITS)]
EIGENVECTORS = [(1, 1, 1, 1), (1, -1, 0, 0), (1, 0, -1, 0), (1, 0, 0, -1)]  # linearly independent
KAPPAS = [Fraction(percent, 100) for percent in (50, 75, 85, 90, 95)]


def eigenvalue(vector: tuple[int, ...]) -> Fraction:
    """Return the number by which R multiplies the vector."""
    image = [sum((r * x for r, x in zip(row, vector, strict=True)), Fraction(0)) for row in R]
    if not all(y == image[0] / vector[0] * x for x, y in zip(vector, image, strict=True)):
        raise SystemExit("That is no eigenvector.")
    return image[0] / vector[0]


def chosen(kappa: Fraction) -> int:
    """Return the least number of eigenvalues whose share reaches kappa."""
    values = sorted((eigenvalue(vector) for vector in EIGENVECTORS), reverse=True)
    return next(m for m in range(1, UNITS + 1) if sum(values[:m]) >= kappa * sum(values))


if __name__ == "__main__":
    numbers = [chosen(kappa) for kappa in KAPPAS]
    share = eigenvalue(EIGENVECTORS[0]) / UNITS
    print(f"Factors of the model: {FACTORS}; the largest eigenvalue has {share} of the total.")
    print(f"Factors by the rule: {', '.join(map(str, numbers))} for kappa = {', '.join(map(str, KAPPAS))}.")
    if not all(number != FACTORS for number in numbers):
        raise SystemExit("The rule finds the number of factors for one of these kappa.")
