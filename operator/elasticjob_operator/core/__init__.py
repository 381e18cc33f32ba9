"""What to do about a job: pure functions from what was observed, and the time, to named actions.

No I/O, no clock, no randomness: the same observation always gives the same decision, so whoever is interrupted anywhere
starts again from what is there. One policy, one module.
"""
