"""What the operating system gives and refuses: threads, stderr, exhausted resources."""
