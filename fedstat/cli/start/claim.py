"""EX-01: FedAvg with several local steps need not end at the optimum. Put your statement and checks in its place."""

from typing import Any

from fedstat.claims import Claim, Evidence, parabolas, search

ENDS = Claim(
    id="EX-01",
    place="folklore",  # where it is stated: paper, section, sentence
    said_by="paper",
    words="FedAvg with several local steps of fixed size ends at the optimum.",
    statement="lim_(r -> infinity) w_r = w^*",  # in Typst mathematics
    severity="false",  # if it fails: "misprint", "unstated condition" or "false"
    assumptions="quadratic losses, full gradients, everybody takes part, step 1 / L",
    sensitivity="any distance from the optimum, exact",
    flaw="Further steps take a client of small curvature further, and one of large curvature has arrived already.",
)


def ends(problems: Any) -> Evidence:
    """Compare the limit of two local steps of size 1 / L with the optimum, both as fractions."""
    return search(
        problems,
        lambda clients: (clients.limit(steps=2, lr=1 / clients.smoothness), clients.optimum),
        relation="==",
        names=("the limit", "the optimum"),
    )


@ENDS.reading("any clients")
def any_clients() -> Evidence:
    """Take the words as they stand."""
    return ends(parabolas())


@ENDS.condition("all clients have the same curvature")
def alike() -> Evidence:
    """Assume what the words do not say."""
    return ends(parabolas(curvatures=(2, 2)))
