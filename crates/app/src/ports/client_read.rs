//! Which reads are for a client of the API. A store with several connections keeps some for them: a client that reads a lot
//! must not delay a lane that reads before it gives a nonce.

tokio::task_local! {
    static FOR_CLIENT: ();
}

/// Does this for a client. What it spawns is not for the client any more.
pub async fn for_client<F: Future>(work: F) -> F::Output {
    FOR_CLIENT.scope((), work).await
}

/// Whether what runs now is for a client.
#[must_use]
pub fn is_for_client() -> bool {
    FOR_CLIENT.try_with(|()| ()).is_ok()
}
