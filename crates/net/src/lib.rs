//! How messages move: transports, the server reactor, connections and calls.
