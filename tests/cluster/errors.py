"""The one error of this package: a text that tells the person at the terminal what went wrong and what to do.

Callers print it as it is. Nothing here may raise it for a programming mistake: those stay ordinary exceptions.
"""


class ClusterError(Exception):
    """A cluster, a tool or an image cannot be had; the text is the whole story, log tail included."""
