//! Chains by their configured names, which is how clients know them.

use std::borrow::Cow;

use fencepost_domain::ids::ChainId;
use fencepost_domain::request::Ceilings;

use crate::faults::Faults;
use crate::problem::{Code, Problem};

/// One configured chain.
#[derive(Debug, Clone)]
pub struct ChainInfo {
    /// Its name in the configuration.
    pub name: String,
    /// Its id.
    pub id: ChainId,
    /// The highest fees we sign on it.
    pub ceilings: Ceilings,
}

/// All configured chains.
pub(crate) struct Chains(Vec<ChainInfo>);

/// Which chain a request means.
#[derive(Clone, Copy)]
pub(crate) enum Choice<'a> {
    /// This one.
    One(&'a ChainInfo),
    /// None that is configured, or that could be told from what was given.
    None,
}

impl<'a> Choice<'a> {
    /// The chain, or that there is none of that name.
    pub(crate) fn known(self) -> Result<&'a ChainInfo, Problem> {
        match self {
            Self::One(chain) => Ok(chain),
            Self::None => Err(Problem::new(Code::UnknownChain)),
        }
    }

    /// The fees that a payload may name. Of a chain that we do not know, any: it is told first what
    /// else is wrong with a request, and then that there is no such chain.
    pub(crate) const fn ceilings(self) -> Ceilings {
        match self {
            Self::One(chain) => chain.ceilings,
            Self::None => Ceilings {
                max_fee: u128::MAX,
                max_priority_fee: u128::MAX,
            },
        }
    }
}

impl Chains {
    pub(crate) const fn new(chains: Vec<ChainInfo>) -> Self {
        Self(chains)
    }

    pub(crate) fn all(&self) -> &[ChainInfo] {
        &self.0
    }

    /// The chain of that name. Without a name it is the only one; which of several is meant, nobody
    /// can guess.
    pub(crate) fn choose(&self, name: Option<&str>, faults: &mut Faults) -> Choice<'_> {
        match (name, &self.0[..]) {
            (Some(name), chains) => chains
                .iter()
                .find(|chain| chain.name == name)
                .map_or(Choice::None, Choice::One),
            (None, [only]) => Choice::One(only),
            (None, []) => Choice::None,
            (None, [_, _, ..]) => {
                faults.add("chain", "is required while several chains are configured");
                Choice::None
            }
        }
    }

    /// The fees that are signed on a chain at most. Of one that is not configured here, whoever leads
    /// there knows them.
    pub(crate) fn ceilings(&self, id: ChainId) -> Ceilings {
        let found = self.0.iter().find(|chain| chain.id == id);
        found.map_or(Choice::None, Choice::One).ceilings()
    }

    /// The configured name of a chain; of one that was configured once, or elsewhere, its id.
    pub(crate) fn name(&self, id: ChainId) -> Cow<'_, str> {
        let found = self.0.iter().find(|chain| chain.id == id);
        found.map_or_else(
            || Cow::Owned(id.to_string()),
            |chain| Cow::Borrowed(chain.name.as_str()),
        )
    }
}
