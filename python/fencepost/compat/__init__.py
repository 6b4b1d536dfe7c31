"""Other libraries' interfaces over a store. Nothing here is imported but by who asks for it."""
