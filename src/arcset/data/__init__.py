"""Datasets, class selection and batches."""
