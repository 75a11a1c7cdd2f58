"""All that a run keeps on disk: result, folder, tables that grow, checkpoints; and what it says of its progress."""
