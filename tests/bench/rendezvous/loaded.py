"""Imported last in the process that nodes are forked from: what a node does once in its life, as it imports torch once.

OpenSSL reads its tables when the first context is made. And a collection of garbage in a fork would copy all of torch's
objects, which no process does that has loaded them itself.
"""

from __future__ import annotations

import gc
import ssl

ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
gc.collect()
gc.freeze()
