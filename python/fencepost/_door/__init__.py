"""The door: messages from a connection of another library, by INSERTs into two views."""
