"""The life of a collective call: its request, the decision, the binding to sizes, the plans that are kept."""
