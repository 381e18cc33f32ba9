"""Which cluster nodes may be taken away at any time, as clouds and their autoscalers mark them."""

from typing import Final

LABELS: Final = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
    "node.kubernetes.io/lifecycle": "spot",
}
"""Any of these labels with its value."""
