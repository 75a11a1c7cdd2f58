"""Statements of "Factorized-FL: Personalized Federated Learning with Parameter Factorization & Similarity Matching".

A client's weights are ``W = u v' + mu``: a shared vector u, a personal vector v and a sparse personal matrix mu.
"""

PAPER = "Factorized-FL"
LINK = "https://proceedings.neurips.cc/paper_files/paper/2022/hash/e7feb9dbd9a94b6c552fc403fcebf2ef-Abstract-Conference.html"
