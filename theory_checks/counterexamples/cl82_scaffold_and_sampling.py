"""CL-82: SCAFFOLD may drive the model away from the optimum if one client is drawn a round, and not if all take part.

Karimireddy et al., "SCAFFOLD" (ICML 2020, arXiv:1910.06378; abstract) say that it is not affected by data
heterogeneity or client sampling. The optimum is at rest whoever takes part; whether it is reached depends on that.

Counterexample: three clients with the losses x^2/2, x^2/2 and 8 x^2/2, which all have their minimum at zero; one local
step of 1/8, one over the largest curvature; the controls start with the gradients at zero, which are zero. If all take
part the distance shrinks in every round. If one client is drawn, each as likely, the expected squared distance grows.
"""

from fractions import Fraction

CURVATURES = (1, 1, 8)
STEP = Fraction(1, 8)
State = tuple[Fraction, ...]


def after(state: State, chosen: tuple[int, ...]) -> State:
    """Return the model and the clients' controls after a round of one local step."""
    x, *controls = state
    mean = sum(controls, Fraction(0)) / len(controls)
    moves = [STEP * (CURVATURES[k] * x - controls[k] + mean) for k in chosen]
    new = [CURVATURES[k] * x if k in chosen else c for k, c in enumerate(controls)]
    return (x - sum(moves, Fraction(0)) / len(chosen), *new)


def expected_square(rounds: int) -> Fraction:
    """Return the expected squared distance if one client is drawn a round, from the products of all entries' means."""
    n = len(CURVATURES) + 1
    unit = [tuple(Fraction(i == j) for j in range(n)) for i in range(n)]
    columns = [[after(u, (k,)) for u in unit] for k in range(n - 1)]  # a round is linear
    second = [[Fraction(i == j == 0) for j in range(n)] for i in range(n)]
    for _ in range(rounds):
        new = [[Fraction(0)] * n for _ in range(n)]
        for image in columns:
            half = [[sum(image[a][i] * second[a][b] for a in range(n)) for b in range(n)] for i in range(n)]
            for i in range(n):
                for j in range(n):
                    new[i][j] += sum((half[i][b] * image[b][j] for b in range(n)), Fraction(0)) / len(columns)
        second = new
    return second[0][0]


if __name__ == "__main__":
    state: State = (Fraction(1), *(Fraction(0) for _ in CURVATURES))
    state = after(state, tuple(range(len(CURVATURES))))
    drawn = expected_square(40)
    print(f"From a distance of 1, all three clients come to {state[0]} in a round.")
    print(f"If one is drawn a round, the expected squared distance is {float(drawn):.3f} after 40 rounds.")
    if not (abs(state[0]) < 1 < drawn):
        raise SystemExit("Drawing one client did not drive the model away.")
