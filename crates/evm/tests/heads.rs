//! Announcements of new blocks over WebSocket, from real servers on ports of the system's choice: they announce, close, refuse,
//! hang, flood and send garbage.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod heads {
    pub(crate) mod server;

    mod announced;
    mod broken;
    mod tls;
    mod logged;
}
