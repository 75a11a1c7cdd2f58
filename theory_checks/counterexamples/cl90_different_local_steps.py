"""CL-90: with different numbers of local steps FedAvg does not end at the mean weighted by these numbers.

Wang, Liu, Liang, Joshi and Poor, "Tackling the objective inconsistency problem in heterogeneous federated optimization"
(NeurIPS 2020; section 3, Lemma 1) say that on the losses |x - e_i|^2 / 2, with tau_i local steps of a sufficiently
small size, it ends at the mean of the e_i with weights tau_i. That is so only in the limit of a step size of zero.

Counterexample: two clients with e = 0 and e = 1 who make one step and two. The lemma says 2/3; steps of 1/2 end at 3/5
and steps of 1/10 at 19/29. A step of any size between 0 and 1 gives (2 - eta) / (3 - eta), which is below 2/3.
"""

from fractions import Fraction

CENTRES, STEPS = (0, 1), (1, 2)
LEMMA = Fraction(2, 3)  # (1 * 0 + 2 * 1) / (1 + 2)
ENDS = {Fraction(1, 2): Fraction(3, 5), Fraction(1, 10): Fraction(19, 29), Fraction(1, 1000): Fraction(1999, 2999)}


def after_a_round(model: Fraction, eta: Fraction) -> Fraction:
    """Return the average of what the clients' local steps make of the common model."""
    results = []
    for centre, steps in zip(CENTRES, STEPS, strict=True):
        own = model
        for _ in range(steps):
            own -= eta * (own - centre)
        results.append(own)
    return sum(results, Fraction(0)) / len(results)


if __name__ == "__main__":
    found = ", ".join(f"{end} with steps of {eta}" for eta, end in ENDS.items())
    print(f"The lemma says {LEMMA}; FedAvg ends at {found}.")
    for eta, end in ENDS.items():
        # a round leaves one share of the distance from where it is at rest, less than all of it, whatever the model
        share = (1 - eta + (1 - eta) ** 2) / 2
        if not all(after_a_round(model, eta) - end == share * (model - end) for model in (Fraction(0), Fraction(1))):
            raise SystemExit("A round does not bring the model nearer to that end.")
        if not (0 <= share < 1 and end == (2 - eta) / (3 - eta) < LEMMA):
            raise SystemExit("The end is where the lemma says.")
