"""When splitting pays: a phase diagram on the generator, and a line of it on real images."""
