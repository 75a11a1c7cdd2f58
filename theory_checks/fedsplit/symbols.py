"""The symbols of Theorem 1, in words, for claims that use them."""

SYMBOLS = (
    "λˢ and λᵖ are the smallest eigenvalues of the kernels of shared and personal units, γˢ and γᵖ these kernels' "
    "condition numbers; ρ₁ = η_g η_l G / C and ρ₂ = η_l G are the steps of a round for shared and personal units, ρ′ "
    "the one of FedAvg; C clients with n samples each, N in all; G local steps, η_l the local and η_g the server's step"
)
