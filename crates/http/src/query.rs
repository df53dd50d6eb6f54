//! What stands in the path and follows the question mark. A misspelt filter that is ignored would give wrong answers, so
//! unknown parameters are refused like unknown fields.

use std::convert::Infallible;
use std::ops::RangeInclusive;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::faults::Faults;

/// The parameters of a request that nobody has asked for yet, and what is wrong with the others.
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
    pub(crate) faults: Faults,
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self {
            pairs: form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
            faults: Faults::default(),
        })
    }
}

/// The one variable part of a path. What is not even text is read as nothing, which is no id.
pub(crate) struct Segment(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let part = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(part.map_or_else(|_| String::new(), |Path(part)| part)))
    }
}

impl Query {
    /// A parameter's text.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let at = self.pairs.iter().position(|(given, _)| given == name)?;
        let (_, text) = self.pairs.remove(at);
        if self.pairs.iter().any(|(given, _)| given == name) {
            self.pairs.retain(|(given, _)| given != name);
            self.faults.add(name, "is given twice");
        }
        Some(text)
    }

    /// The same, where it must be there.
    pub(crate) fn required(&mut self, name: &str) -> Option<String> {
        let text = self.text(name);
        if text.is_none() {
            self.faults.add(name, "is required");
        }
        text
    }

    /// A whole number within bounds.
    pub(crate) fn number(&mut self, name: &str, bounds: RangeInclusive<u64>, default: u64) -> u64 {
        match self.text(name) {
            Some(text) => self.read(name, &text, bounds).unwrap_or(default),
            None => default,
        }
    }

    /// The same, where it must be there.
    pub(crate) fn required_number(
        &mut self,
        name: &str,
        bounds: RangeInclusive<u64>,
    ) -> Option<u64> {
        let text = self.required(name)?;
        self.read(name, &text, bounds)
    }

    fn read(&mut self, name: &str, text: &str, bounds: RangeInclusive<u64>) -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = text.parse().ok().filter(|_| digits);
        let number = number.filter(|number| bounds.contains(number));
        if number.is_none() {
            let (least, most) = bounds.into_inner();
            let why = format!("must be a whole number from {least} to {most}");
            self.faults.add(name, why);
        }
        number
    }

    /// All parameters have been asked for: the others are unknown.
    pub(crate) fn finish(mut self) -> Faults {
        for (name, _) in &self.pairs {
            self.faults.add(name, "is not a parameter of this route");
        }
        self.faults
    }
}
