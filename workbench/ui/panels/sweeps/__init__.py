"""The tab of tuning: sweeps of scenarios and of kernels."""
