//! The only JSON-RPC client of Fencepost: endpoints, dialects, fees.
