//! Reading transactions: one by whatever is known of it, or page by page.

use alloy_primitives::{Address, B256};
use serde::Deserialize;
use tokio::time::Instant;
use uuid::Uuid;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::transaction::{State, Transaction};

/// Which transactions are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only of this signer. A key that covers some signers only must name one.
    pub signer: Option<Address>,
    /// Only on this chain.
    pub chain: Option<String>,
    /// Only in this state.
    pub state: Option<State>,
    /// How many at most, up to 1,000; 100 where not given.
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// A page of transactions, newest first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Page {
    /// The transactions.
    pub transactions: Vec<Transaction>,
    /// Gives the next page; none where there is none.
    pub next_cursor: Option<String>,
}

impl Client {
    /// A transaction by its id. One that was acknowledged is found by every node.
    pub async fn transaction(&self, tx_id: Uuid) -> Result<Transaction, Error> {
        self.told(Call::get(["tx", &tx_id.to_string()])).await
    }

    /// The same, tried no longer than this.
    pub(crate) async fn transaction_by(
        &self,
        tx_id: Uuid,
        by: Instant,
    ) -> Result<Transaction, Error> {
        let tx_id = tx_id.to_string();
        self.told(Call::get(["tx", &tx_id]).by(by)).await
    }

    /// A transaction by its request id.
    pub async fn transaction_by_request(
        &self,
        signer: Address,
        chain: Option<&str>,
        request_id: &str,
    ) -> Result<Transaction, Error> {
        let call = Call::get(["tx", "by-request"])
            .with("signer", Some(signer))
            .with("requestId", Some(request_id))
            .with("chain", chain);
        self.told(call).await
    }

    /// The transaction that has an attempt of this hash. Without a chain all are searched.
    pub async fn transaction_by_hash(
        &self,
        hash: B256,
        chain: Option<&str>,
    ) -> Result<Transaction, Error> {
        let hash = hash.to_string();
        let call = Call::get(["tx", "by-hash", &hash]).with("chain", chain);
        self.told(call).await
    }

    /// The transaction that holds a nonce now.
    pub async fn transaction_by_nonce(
        &self,
        signer: Address,
        chain: Option<&str>,
        nonce: u64,
    ) -> Result<Transaction, Error> {
        let call = Call::get(["tx", "by-nonce"])
            .with("signer", Some(signer))
            .with("nonce", Some(nonce))
            .with("chain", chain);
        self.told(call).await
    }

    /// A page of transactions, newest first. Pages neither repeat nor skip what was there when the first one
    /// was read.
    pub async fn transactions(&self, filter: &Filter) -> Result<Page, Error> {
        let call = Call::get(["tx"])
            .with("signer", filter.signer)
            .with("chain", filter.chain.as_ref())
            .with("state", filter.state.as_ref())
            .with("limit", filter.limit)
            .with("cursor", filter.cursor.as_ref());
        self.told(call).await
    }
}
