"""A method that leaves time for what is to happen meanwhile."""

import time

from fedstat.methods import Ditto


class Slow(Ditto):
    """Ditto that leaves time to be killed."""

    def objective(self, learner, params, batch, context):
        time.sleep(0.02)
        return super().objective(learner, params, batch, context)
