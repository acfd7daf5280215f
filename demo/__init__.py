"""The demo pair: a corpus generator, a tokenizer and a trainer for a small target and its draft."""
