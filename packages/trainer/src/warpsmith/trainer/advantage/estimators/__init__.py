"""What a turn is judged by; one estimator in each module."""
