"""Container images without Docker: a store in the cache, Debian bases, and builds of this repository's Dockerfiles."""
