"""Ask which of four hospitals gains by training with the others."""
