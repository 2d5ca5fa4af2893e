"""The errors a user can meet, by what they end: a row, a start, or a run.

Every message is a sentence: what was wrong, the value got, what is allowed, what to do.
"""


class MuloError(Exception):
    """Base of every error this package raises on purpose."""


class UsageError(MuloError, ValueError):
    """An option, a file or a combination the user can correct (exit code 2)."""


class PromptError(MuloError, ValueError):
    """One prompt cannot become an image: a recorded failure of its row, never of the run."""


class RunError(MuloError, RuntimeError):
    """The run as a whole cannot go on (exit code 1)."""


class CheckpointError(RunError):
    """Weights are missing, unreadable, of another shape, or of another codebook."""


class PlacementError(RunError):
    """The cluster does not hold the devices the worker groups need."""


class StorageError(RunError):
    """The output cannot be written, listed or read."""


class StoreBusyError(StorageError):
    """The store kept failing for a while: the row fails for now, and the next run tries it again."""


class ResumeError(UsageError):
    """The output holds a run with other pixels, or another live driver owns it."""


class WorkerLostError(RunError):
    """A worker process died or hung: its block is retried elsewhere."""
