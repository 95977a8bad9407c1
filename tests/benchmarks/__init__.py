"""What the product costs, beside bare PostgreSQL, bare RQ and LangGraph, measured in one run.

`python -m tests.benchmarks` starts servers of its own and leaves `var/bench/latest.json` and
`latest.svg` behind.
"""
