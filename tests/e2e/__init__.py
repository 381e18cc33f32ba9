"""A package, so that its cluster goes when the last of its tests has run, and not after the integration tests."""
