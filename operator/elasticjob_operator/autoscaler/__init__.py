"""Who gets what: nodes per job out of a snapshot of the cluster, each grant with its reason.

Pure: no kopf, no client, no clock, no randomness. The operator hands in what it has read and carries out what comes
back; the simulator replays a trace through the same code. Start reading at `deciding.py`.
"""
