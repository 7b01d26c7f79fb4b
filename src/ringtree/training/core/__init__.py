"""The trained model and its division: layout, plan, model, and steps that are the same under every layout."""
