"""fedstat and its peers side by side: ``python -m benchmarks.sidebyside [--only W1 pfl ...] [--write docs]``.

fedstat, pfl, flwr on Ray, fedjax, the usual loop in plain torch and, if its code is at hand, PFLlib train FedAvg on the
same arrays, from the same weights, with the same participants and the same number of steps. Each lives in a process of
its own and they take turns, a round each, so that what else the machine does meets them all. Nobody evaluates. At the
end each one's model is tested: all must have learnt the same, within what the order of batches changes.

W1
    100 clients x 100 samples, dense network 100-200-1, logistic loss, batches of 20, 5 local epochs; 2,500 steps.
W2
    10 of 100 clients x 100 images 28 x 28, two convolutions and two dense layers, batches of 20, 2 epochs; 100 steps.
W3
    As W1, with 1,000 clients; 25,000 steps.

A peer is one file in ``peers/``: `PACKAGES`, and `run`, which trains as long as `Turns.more` says so. Nothing is
installed; what is missing is left out by name. All of them live in one environment::

    python -m venv peers
    peers/bin/pip install -e . 'pfl==0.6.0' 'flwr[simulation]==1.41.0' 'fedjax==0.0.17' 'jax==0.10.2' 'torch==2.13.0'
    git clone https://github.com/TsingZ0/PFLlib
    peers/bin/python -m benchmarks.sidebyside --pfllib PFLlib

and need not: ``--python pfl=/other/bin/python`` runs one with another interpreter. It takes about eight minutes on two
quiet cores, most of it W3. Linux only.
"""
