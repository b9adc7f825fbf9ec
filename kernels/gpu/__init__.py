"""What needs a GPU, by one command, `make gpu`: with torch, triton, numpy and pytest alone."""
