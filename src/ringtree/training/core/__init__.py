"""What is trained and how it is divided: layout, plan, model, and steps that are the same under every layout."""
