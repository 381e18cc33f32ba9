"""The round protocol: what is recorded, how it may change, and what an agent does about it.

Everything here is a pure function of frozen values: no torch, no API client, no clock, no randomness. The operator and
the agents share it, so the record has one definition and each transition one implementation.
"""
