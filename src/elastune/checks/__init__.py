"""What is tried before a run: some steps of the user's training, in processes of their own."""
