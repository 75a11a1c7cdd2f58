"""The networks: plain ``torch.nn``, offered as factories so that initial weights come from the seed."""

from fedstat.models.networks import atom_linear, cnn, mlp, split_relu

__all__ = ["atom_linear", "cnn", "mlp", "split_relu"]
