//! How much an account has, as the endpoint says that is read from.

use std::sync::Arc;

use fencepost_domain::{Address, U256};

use crate::endpoint::Endpoint;
use crate::endpoints::{Endpoints, Unasked};
use crate::meters::Purpose;
use crate::rpc::{Call, Fault, quoted, value};

impl Endpoints {
    pub(crate) async fn balance(&self, signer: Address) -> Result<U256, Unasked> {
        let until = self.until();
        let call = Call::new("eth_getBalance", &[&quoted(signer), &quoted("latest")]);
        let one = |endpoint: Arc<Endpoint>| {
            let call = call.clone();
            async move {
                let answer = endpoint.ask_one(Purpose::Balance, call, until).await?;
                let garbled = Fault::Garbled("no amount of money");
                let balance = value::u256(&answer).ok_or(garbled);
                balance.inspect_err(|fault| endpoint.fails(fault))
            }
        };
        self.read(until, one).await
    }
}
