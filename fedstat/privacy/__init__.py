"""What clients' messages give away: gradient inversion, and differential privacy with its account and an audit.

Differential privacy
--------------------
`account` says what epsilon the runs of a result come to, `spent` what one would; `audit` tries to tell from outcomes
whether a client took part, and returns the epsilon that this contradicts. The mechanisms are `fedstat.mechanisms`.

The threat model of gradient inversion
--------------------------------------
The attacker is the server, honest but curious: it follows the protocol, and looks at the messages of one client in one
round (`fedstat.federated.codec`; nothing is averaged with other clients first).

It sees: the message that the client received and the one that it sent back, so how the leaves that it shares moved.

It knows: the network, the method with its hyper-parameters, the optimiser with its learning rate, how many samples the
client used in how many steps, the shape and range of an input, and the leaves that everybody started from before the
first round. Under ``labels="known"`` it also knows the labels of those samples; this bounds what a weaker one can do.

It does not know: the samples, the order of batches, and the client's personal leaves: FedPer's head, FedRoD's private
head and class counts, FedDecomp's low-rank part tau. It puts the common start in their place (for tau this is zero) and
counts the classes as equally frequent. Under ``personal="known"`` it knows them: a control that tells what hiding them
is worth, and no attack that a server could make.

Batch norm is in training mode, as it was at the client: moments are those of the reconstructed batch.

The attacks
-----------
* Deep leakage from gradients (Zhu et al. 2019): squared distance of gradients, L-BFGS, labels optimised with the
  inputs. Theirs is a network of sigmoids, with weights uniform in (-.5, .5).
* iDLG (Zhao et al. 2020): the label of a single sample from the sign of the head's gradient.
* Inverting gradients (Geiping et al. 2020): cosine distance, total variation, Adam on signed gradients, inputs kept in
  their range.
* The ratio of gradients (Phong et al. 2018), where a single sample enters a dense layer with a bias; see `invert`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
