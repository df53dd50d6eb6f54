//! Which client an endpoint runs: its texts mean what that client's authors meant by them.

/// A client whose texts we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Dialect {
    Geth,
    Reth,
    Erigon,
    Nethermind,
    Besu,
    Anvil,
    /// Another one, or it does not say: only texts that mean the same everywhere are believed.
    #[default]
    Unknown,
}

impl Dialect {
    /// From the answer to `web3_clientVersion`.
    pub(crate) fn of(version: &str) -> Self {
        let name = version.split('/').next().unwrap_or_default().trim();
        match name.to_lowercase().as_str() {
            // Bor is geth with another consensus.
            "geth" | "bor" => Self::Geth,
            "reth" => Self::Reth,
            "erigon" => Self::Erigon,
            "nethermind" => Self::Nethermind,
            "besu" => Self::Besu,
            "anvil" => Self::Anvil,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_the_first_part_of_its_version() {
        let check = |version, dialect| assert_eq!(Dialect::of(version), dialect, "{version}");
        check("Geth/v1.16.2-stable-abc/linux-amd64/go1.24", Dialect::Geth);
        check("bor/v2.0.0/linux", Dialect::Geth);
        check("reth/v1.5.0/x86_64-unknown-linux-gnu", Dialect::Reth);
        check("erigon/3.0.4/linux-amd64/go1.23", Dialect::Erigon);
        check("Nethermind/v1.32.2/linux-x64/dotnet9", Dialect::Nethermind);
        check("besu/v25.7.0/linux-x86_64/openjdk-java-21", Dialect::Besu);
        check("anvil/v1.2.3", Dialect::Anvil);
        check("nitro/v3.6.0", Dialect::Unknown);
        check("not geth/v1", Dialect::Unknown);
        check("", Dialect::Unknown);
    }
}
