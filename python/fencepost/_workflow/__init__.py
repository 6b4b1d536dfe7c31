"""What a workflow's pass knows: its history, what its values become, and how it goes on."""
