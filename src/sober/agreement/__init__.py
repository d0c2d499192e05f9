"""What recurs when a model is trained again, against chance: for codes and dictionaries of any library."""
