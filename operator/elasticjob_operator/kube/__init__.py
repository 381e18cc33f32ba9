"""All I/O: reading a job and its objects, carrying out decisions, the queue between watches and workers, the election.

Decides nothing about jobs: that is ``core``, which it calls.
"""
