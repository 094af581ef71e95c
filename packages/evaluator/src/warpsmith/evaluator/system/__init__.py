"""Interfaces to the operating system: threads, stderr, exhausted resources."""
