"""What is asked: jobs, what each model is sensitive to, traces in, traces made."""
