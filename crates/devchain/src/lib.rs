//! An in-process chain with a JSON-RPC server and faults on demand.
