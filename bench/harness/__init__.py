"""The one benchmark harness of Ioweave: protocol, environment, cold caches, limited devices.

A benchmark is a module of `harness.benchmarks` with a function `run(session)` that yields rows;
everything it needs to measure well is in the modules beside this file. See bench/README.md.
"""
