"""The remote runner `dask`: Python tools on a Dask cluster (the extra `dask`).

The processes of the cluster import `process`, which needs no settings.
"""
