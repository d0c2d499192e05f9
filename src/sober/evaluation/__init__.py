"""The one engine: it trains, encodes and scores the models of a folder, performs tasks with them, and judges them."""
