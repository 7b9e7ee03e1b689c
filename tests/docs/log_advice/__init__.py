"""What operators do about log events, by the part of Penstock that writes them. May import nothing but `advice`."""
