"""vLLM command lines and code, in and out."""
