"""A package, so that its control plane goes when the last of its tests has run."""
