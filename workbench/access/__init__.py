"""What a text from outside may make the program open, write, start or connect to."""
