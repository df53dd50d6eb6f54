//! `[api]`: what callers are told, and what they may use up.

use std::ops::RangeInclusive;

use fencepost_http::Limits;

use super::section::Section;

/// More requests than that in a second no address makes.
const KEYLESS_MAX: u64 = 1_000_000;

/// About 100 MiB of audit a day.
const AUDITED_REFUSALS_MAX: u64 = 600;

/// Less than an import takes would refuse every import; more than any machine has is a mistake in the number.
const MEMORY_MIB: RangeInclusive<usize> = 64..=1_048_576;
const MIB: usize = 1024 * 1024;

/// What callers are told, and what they may use up.
pub(crate) struct ApiSettings {
    /// Only keys that may operate see nonces.
    pub(crate) hide_nonces: bool,
    /// How many refused calls the audit keeps a minute.
    pub(crate) audited_refusals: u32,
    /// Requests a second of each address without a valid key; 0 is no limit.
    pub(crate) keyless_per_second: u32,
    /// Bytes of bodies and answers that all requests together may hold.
    pub(crate) memory_bytes: usize,
}

pub(super) fn read(from: &mut Section<'_>) -> ApiSettings {
    let limits = Limits::default();
    let refusals = from.number(
        "audited_refusals_per_minute",
        limits.audited_refusals_per_minute.into(),
        0..=AUDITED_REFUSALS_MAX,
    );
    let usual = limits.keyless_per_second;
    let keyless = from.number("keyless_per_second", usual.into(), 0..=KEYLESS_MAX);
    let memory = from.count("memory_max_mib", limits.memory_bytes / MIB, MEMORY_MIB);
    ApiSettings {
        hide_nonces: from.flag("hide_nonces", false),
        audited_refusals: u32::try_from(refusals).unwrap_or(u32::MAX),
        keyless_per_second: u32::try_from(keyless).unwrap_or(usual),
        memory_bytes: memory.saturating_mul(MIB),
    }
}
