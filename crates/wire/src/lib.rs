//! What is said between clients and daemons: frames, operations, attributes, errors, tokens.
