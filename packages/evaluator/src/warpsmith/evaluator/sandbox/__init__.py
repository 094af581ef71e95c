"""What each worker role can see and use, and cleanup of the workers' temporary folders."""
