//! Who has what. A state is a value: copying one is cheap and shares what is equal, so every block of
//! every branch keeps its own and nothing is ever rolled back by hand.

use alloy_primitives::{Address, B256, U256};
use rpds::RedBlackTreeMapSync;

/// What the chain holds for an address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// How many of its transactions were mined.
    pub nonce: u64,
    /// In wei.
    pub balance: U256,
    /// Stands for its code: the hash of the init code that created it.
    pub code: Option<B256>,
}

/// All accounts after some block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    accounts: RedBlackTreeMapSync<Address, Account>,
}

impl State {
    pub(crate) fn new(funded: &[(Address, U256)]) -> State {
        let mut accounts = RedBlackTreeMapSync::new_sync();
        for (address, balance) in funded {
            let account = Account {
                balance: *balance,
                ..Account::default()
            };
            accounts.insert_mut(*address, account);
        }
        State { accounts }
    }

    /// What is known of an address; of an unknown one, an empty account.
    #[must_use]
    pub fn account(&self, address: &Address) -> Account {
        self.accounts.get(address).cloned().unwrap_or_default()
    }

    /// The next nonce of an address.
    #[must_use]
    pub fn nonce(&self, address: &Address) -> u64 {
        self.accounts
            .get(address)
            .map_or(0, |account| account.nonce)
    }

    /// The balance of an address.
    #[must_use]
    pub fn balance(&self, address: &Address) -> U256 {
        self.accounts
            .get(address)
            .map_or(U256::ZERO, |account| account.balance)
    }

    /// Every account, by address.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, &Account)> {
        self.accounts.iter()
    }

    pub(crate) fn put(&mut self, address: Address, account: Account) {
        self.accounts.insert_mut(address, account);
    }

    pub(crate) fn credit(&mut self, address: Address, wei: U256) {
        let mut account = self.account(&address);
        account.balance = account.balance.saturating_add(wei);
        self.put(address, account);
    }
}
