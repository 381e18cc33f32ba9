"""The demo: an elastic job on a real Kubernetes, resized, broken and mended, told on the terminal as it happens.

`python -m demo` tells it; the end-to-end tests take the same steps and checks (`demo.story`, `demo.checks`) and assert.
Layers, upwards: `rounds` (pure) < `watching` (reads the API) < `checks` (pure) < `story` < `telling`, `staging`,
`__main__`.
"""
