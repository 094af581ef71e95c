"""What is judged on: memory shared with workers, tensors in it, and what a GPU needs beside."""
