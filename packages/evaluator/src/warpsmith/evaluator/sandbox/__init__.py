"""What each role of worker may see and use, and the temporary folders that workers leave behind."""
