"""vLLM command lines and Python code, in and out."""
