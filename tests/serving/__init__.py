"""What the tests of inference servers share: a model, and servers as processes of their own."""
