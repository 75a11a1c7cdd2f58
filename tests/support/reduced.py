"""Results on disk, reduced row by row as a comparison reduces them."""

from fedstat.inference import reduce
from fedstat.inference.reading.formats.tidy import shares_reduced
from fedstat.inference.reading.read import open_results


def reduce_file(path, metric=None, split=None):
    """Reduce results without holding them in memory; errors name the file, as a comparison does."""
    opened = open_results(path, metric=metric)
    try:
        return shares_reduced(reduce(opened, metric, split, known=opened.survey()), opened.source)
    except ValueError as error:
        raise ValueError(f"{opened.source}: {error}") from error
