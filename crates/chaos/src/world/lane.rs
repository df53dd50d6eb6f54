//! The chains and lanes of a run: few signers, each on both chains.

use fencepost_domain::Address;

pub(crate) const SIGNERS: u32 = 4;

/// Which chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Chain {
    /// A real EVM, restarted and reorganised.
    Anvil,
    /// A chain in this process, whose endpoints lie.
    Dev,
}

pub(crate) const CHAINS: [Chain; 2] = [Chain::Anvil, Chain::Dev];

impl Chain {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anvil => "anvil",
            Self::Dev => "dev",
        }
    }

    pub(crate) fn id(self) -> u64 {
        match self {
            Self::Anvil => 31_337,
            Self::Dev => 31_338,
        }
    }
}

/// The chain of a lane, by its place in the list of lanes.
pub(crate) fn chain_of(lane: usize) -> Chain {
    let signers = usize::try_from(SIGNERS).expect("a small number");
    CHAINS.get(lane / signers).copied().unwrap_or(Chain::Dev)
}

/// A signer on a chain. Its place in the list of lanes is what notes call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) chain: Chain,
    pub(crate) signer: Address,
    /// Nonces of this lane are lent, too. A holder who vanishes holds its lane up, so that not all are.
    pub(crate) lends: bool,
}

pub(crate) fn lanes(signers: &[Address]) -> Vec<Lane> {
    let lane = |chain| {
        signers.iter().enumerate().map(move |(n, signer)| Lane {
            chain,
            signer: *signer,
            lends: n + 1 == signers.len(),
        })
    };
    CHAINS.into_iter().flat_map(lane).collect()
}
