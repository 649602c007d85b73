"""Job in, findings out: one file a diagnosis, and the engine that runs them and orders cause before consequence."""
