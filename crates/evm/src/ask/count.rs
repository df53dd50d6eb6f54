//! How many transactions of an account the chain has counted, as its endpoints say.

use std::sync::Arc;

use fencepost_app::ports::CountMode;
use fencepost_domain::Address;
use fencepost_domain::ids::Nonce;
use fencepost_domain::nonce::ChainCount;

use crate::endpoint::Endpoint;
use crate::endpoints::{Endpoints, Unasked};
use crate::meters::Purpose;
use crate::rpc::{Call, Fault, quoted, value};

impl Endpoints {
    pub(crate) async fn count(
        &self,
        signer: Address,
        mode: CountMode,
    ) -> Result<ChainCount, Unasked> {
        let until = self.until();
        let tag = match mode {
            CountMode::Pending => "pending",
            CountMode::Latest => "latest",
        };
        let params = [quoted(signer), quoted(tag)];
        let call = Call::new("eth_getTransactionCount", &[&params[0], &params[1]]);
        let one = |endpoint: Arc<Endpoint>| {
            let call = call.clone();
            async move {
                let answer = endpoint.ask_one(Purpose::Count, call, until).await.ok()?;
                let count = value::u64(&answer).and_then(|n| Nonce::new(n).ok());
                if count.is_none() {
                    endpoint.fails(&Fault::Garbled("no count that an account can have"));
                }
                count
            }
        };
        let counts = self.everyone(until, one).await;
        let extremes = counts.iter().min().zip(counts.iter().max());
        let (lowest, highest) =
            extremes.ok_or_else(|| Unasked::NobodyAnswered(self.name.to_string()))?;
        Ok(ChainCount {
            lowest: *lowest,
            highest: *highest,
        })
    }
}
