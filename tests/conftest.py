"""For all tests: hypothesis sets no deadlines, since how long an example takes depends on what else is running."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
