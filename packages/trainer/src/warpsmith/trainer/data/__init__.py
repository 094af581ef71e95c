"""SFT examples: sources, chats, encoding, mixture, order."""
