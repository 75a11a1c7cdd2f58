"""CL-81: the gradient of a fully connected layer need not tell the layer's input.

Geiping et al., "Inverting gradients" (NeurIPS 2020, arXiv:2003.14053; abstract) say that any input to a fully
connected layer can be reconstructed analytically, independent of the remaining architecture. That takes a bias, and a
loss whose derivative by some output is not zero.

Counterexample: a layer with a single weight, 1, and the squared error (w x - t)^2 / 2. Without a bias the input 1 with
the label 0 has the same gradient as the input 2 with the label 3/2. With a bias of zero every input that meets its
label has the gradient zero.
"""

from fractions import Fraction


def gradient(x: Fraction, label: Fraction) -> tuple[Fraction, Fraction]:
    """Return the derivatives of ``(w x + b - label)^2 / 2`` by w and b at w = 1 and b = 0."""
    by_output = x - label
    return by_output * x, by_output


if __name__ == "__main__":
    one, two = (Fraction(1), Fraction(0)), (Fraction(2), Fraction(3, 2))
    print(f"Without a bias: input {one[0]}, label {one[1]} and input {two[0]}, label {two[1]} have the same gradient,")
    print(f"{gradient(*one)[0]}; with one every input x with label x has the gradient 0, be it {one[0]} or {two[1]}.")
    same = gradient(*one)[0] == gradient(*two)[0]
    if not (same and gradient(one[0], one[0]) == gradient(two[1], two[1]) == (0, 0)):
        raise SystemExit("The gradients tell the inputs apart.")
