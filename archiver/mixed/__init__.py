"""Workloads side by side: what each worker gets of them, when their sessions are due, and on which objects."""
