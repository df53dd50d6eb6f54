//! Whose a transaction is, and with which nonce: somebody has named its hash.

use std::sync::Arc;

use fencepost_domain::ids::Nonce;
use fencepost_domain::{Address, B256, amount};
use serde::Deserialize;

use crate::endpoint::Endpoint;
use crate::endpoints::{Endpoints, Unasked};
use crate::meters::Purpose;
use crate::rpc::{Call, Fault, quoted, value};

#[derive(Deserialize)]
struct Wire<'a> {
    hash: &'a str,
    from: &'a str,
    nonce: &'a str,
}

impl Endpoints {
    pub(crate) async fn is_of(
        &self,
        signer: Address,
        nonce: Nonce,
        hash: B256,
    ) -> Result<Option<bool>, Unasked> {
        let until = self.until();
        let call = Call::new("eth_getTransactionByHash", &[&quoted(hash)]);
        let one = |endpoint: Arc<Endpoint>| {
            let call = call.clone();
            async move {
                let answer = endpoint.ask_one(Purpose::Sender, call, until).await?;
                if value::is_null(&answer) {
                    return Ok(None);
                }
                let sent = value::thing(&answer).and_then(|sent| read(&sent, hash));
                let sent = sent.ok_or(Fault::Garbled("no such transaction"));
                let sent = sent.inspect_err(|fault| endpoint.fails(fault))?;
                Ok(Some(sent == (signer, nonce.get())))
            }
        };
        self.read(until, one).await
    }
}

fn read(sent: &Wire<'_>, hash: B256) -> Option<(Address, u64)> {
    let is_it = amount::word(sent.hash) == Ok(hash);
    let from: Address = sent.from.parse().ok()?;
    Some((from, value::narrow(sent.nonce)?)).filter(|_| is_it)
}
