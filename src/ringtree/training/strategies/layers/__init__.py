"""Layers divided: pipelines, and a graph that is cut."""
