"""The tables of the papers, one function each, made of the results of any study."""
