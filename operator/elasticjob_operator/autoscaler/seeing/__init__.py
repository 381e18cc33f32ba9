"""From the API's objects to the allocator's snapshot: pure, so that every rule of it is tested without a cluster.

What people may write into an object (a job's template above all) is read with care: what makes no sense here is the
API server's to refuse, and costs no other job anything.
"""
