"""Offload to host memory, and transfer from prefill to decode."""
