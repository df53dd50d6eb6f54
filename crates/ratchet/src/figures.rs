//! Figures by part and name, as they are measured and as the checked-in file holds them. Less is better for each.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// What the file says of itself.
const HEAD: &str = "\
# What one transaction costs, in counts that are the same on every machine. `./test ratchet` fails when one grows by more
# than a tenth; `./test ratchet --write` writes this file anew. docs/performance.md says what each of them is.
";

/// How many digits are kept: fewer would hide what is being compared, more would change with every run.
const DIGITS: i32 = 4;

/// Figures of one part, by name.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Figures by part.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Parts(pub(crate) BTreeMap<String, Figures>);

impl Parts {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let told = || path.display().to_string();
        let text = fs::read_to_string(path).with_context(told)?;
        Ok(Self(toml::from_str(&text).with_context(told)?))
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let round = |(name, value): (&String, &f64)| (name.clone(), rounded(*value));
        let part = |(part, figures): (&String, &Figures)| {
            (part.clone(), figures.iter().map(round).collect::<Figures>())
        };
        let parts: BTreeMap<String, Figures> = self.0.iter().map(part).collect();
        let text = format!("{HEAD}\n{}", toml::to_string(&parts)?);
        fs::write(path, text).with_context(|| path.display().to_string())
    }
}

/// A value with as many digits as are worth keeping.
pub(crate) fn rounded(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let magnitude = value.abs().log10().floor();
    let scale = 10_f64.powf(f64::from(DIGITS - 1) - magnitude);
    (value * scale).round() / scale
}

/// How much of something there was for each of so many.
pub(crate) fn per(total: u64, count: u64) -> Result<f64> {
    let exact = |n: u64| u32::try_from(n / 1_000).map(|thousands| (thousands, n % 1_000));
    let float = |n: u64| -> Result<f64> {
        let (thousands, rest) = exact(n)?;
        Ok(f64::from(thousands) * 1_000.0 + f64::from(u32::try_from(rest)?))
    };
    Ok(float(total)? / float(count)?)
}
