"""Trainings that tests start, and what is compared of them."""
