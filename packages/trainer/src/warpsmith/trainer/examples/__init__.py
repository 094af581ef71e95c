"""What a supervised run learns from: sources read row by row, encoded once into files, handed out in a known order."""
