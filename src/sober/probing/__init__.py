"""What a representation knows: numbers for each layer of an encoder and each factor of a world, from arrays alone."""
