//! Everything that is wrong with the fields of one request, told at once.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::given::{Amount, Extras, Given, Shape, Text, Whole};
use crate::problem::{Code, FieldError, Problem};

/// More are counted, not told: nobody reads them, and a body can hold very many.
const TOLD_MAX: usize = 50;
/// Longer names of fields are cut: they are the client's own words.
const NAME_CHARS_MAX: usize = 80;

/// What is wrong so far.
#[derive(Default)]
pub(crate) struct Faults {
    errors: Vec<FieldError>,
    untold: usize,
}

impl Faults {
    /// Notes one.
    pub(crate) fn add(&mut self, field: &str, detail: impl Display) {
        if self.errors.len() == TOLD_MAX {
            self.untold += 1;
            return;
        }
        self.errors.push(FieldError {
            field: field.chars().take(NAME_CHARS_MAX).collect(),
            detail: detail.to_string(),
        });
    }

    /// What a field holds, if it is of the right shape.
    pub(crate) fn given<'a, T: Shape<'a>>(&mut self, field: &str, given: Given<T>) -> Option<T> {
        match given {
            Given::Absent => None,
            Given::Is(value) => Some(value),
            Given::Other(found) => {
                self.add(field, format_args!("must be {}, not {found}", T::EXPECTED));
                None
            }
        }
    }

    /// The same, where the field must be there.
    pub(crate) fn required<'a, T: Shape<'a>>(&mut self, field: &str, given: Given<T>) -> Option<T> {
        if let Given::Absent = given {
            self.add(field, "is required");
        }
        self.given(field, given)
    }

    /// A field's text.
    pub(crate) fn text<'a>(&mut self, field: &str, given: Given<Text<'a>>) -> Option<Cow<'a, str>> {
        self.given(field, given).map(|text| text.0)
    }

    /// An amount's text.
    pub(crate) fn amount<'a>(
        &mut self,
        field: &str,
        given: Given<Amount<'a>>,
    ) -> Option<Cow<'a, str>> {
        self.given(field, given).map(|amount| amount.0)
    }

    /// A field's whole number, within bounds.
    pub(crate) fn number(
        &mut self,
        field: &str,
        given: Given<Whole>,
        bounds: RangeInclusive<u64>,
    ) -> Option<u64> {
        let Whole(number) = self.given(field, given)?;
        if bounds.contains(&number) {
            return Some(number);
        }
        let (least, most) = bounds.into_inner();
        self.add(
            field,
            format_args!("must be a whole number from {least} to {most}"),
        );
        None
    }

    /// The same, where the field must be there.
    pub(crate) fn required_number(
        &mut self,
        field: &str,
        given: Given<Whole>,
        bounds: RangeInclusive<u64>,
    ) -> Option<u64> {
        if let Given::Absent = given {
            self.add(field, "is required");
        }
        self.number(field, given, bounds)
    }

    /// What an object held besides its fields.
    pub(crate) fn extras(&mut self, within: &str, extras: Extras) {
        for (field, detail) in extras.0 {
            self.add(&format!("{within}{field}"), detail);
        }
    }

    /// Reads a text that is there.
    pub(crate) fn read<T, E: Display>(
        &mut self,
        field: &str,
        text: Option<&str>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        match parse(text?) {
            Ok(value) => Some(value),
            Err(why) => {
                self.add(field, why);
                None
            }
        }
    }

    /// All that is told, in one line.
    pub(crate) fn words(&self) -> String {
        let words = self
            .errors
            .iter()
            .map(|error| format!("{} {}", error.field, error.detail));
        words.collect::<Vec<_>>().join("; ")
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Nothing is wrong, or all that is.
    pub(crate) fn check(self) -> Result<(), Problem> {
        if self.errors.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.errors.iter().map(|error| &*error.field).collect();
        let mut detail = format!("Nothing was stored. Wrong: {}", names.join(", "));
        if self.untold > 0 {
            detail.push_str(&format!(", and {} more", self.untold));
        }
        Err(Problem::new(Code::InvalidRequest)
            .detail(detail)
            .errors(self.errors))
    }
}

/// The problem of one wrong field.
pub(crate) fn wrong(field: &str, detail: impl Display) -> Problem {
    let mut faults = Faults::default();
    faults.add(field, detail);
    let Err(problem) = faults.check() else {
        unreachable!("one fault was just added")
    };
    problem
}
