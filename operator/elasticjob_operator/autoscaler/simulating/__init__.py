"""Replays a trace of jobs against a pretended cluster with the operator's own allocator, or with a published policy.

For people who want to choose settings before they trust it with a cluster, and for the benchmarks. Deterministic:
noise is handed in. Nothing in the operator imports it.
"""
