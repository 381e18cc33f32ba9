"""The ElasticJob operator: watches ElasticJobs, keeps their pods, and announces each round of membership.

``handlers`` (kopf) puts keys on a queue; ``kube`` reads and writes; ``core`` decides, purely; ``api`` is the words they
share. Each layer imports only those after it.
"""
