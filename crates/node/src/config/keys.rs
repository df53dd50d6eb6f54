//! The keys of a table, by the kind of value they take. Each asks the environment first, then the
//! file, and notes what is wrong; a mistake is read as the default, so that the walk goes on.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Value;

use super::section::Section;
use super::value::{Text, mistyped};

impl Section<'_> {
    /// What one key is set to, by the environment or else by the file.
    fn find<T>(
        &mut self,
        name: &'static str,
        of_text: impl Fn(&str) -> Result<T, String>,
        of_file: impl Fn(&Value) -> Result<T, String>,
    ) -> Option<T> {
        self.known.push(name);
        let variable = self.path.key(name).variable();
        self.findings.variables.insert(variable.clone());
        let given = self.rest.remove(name);
        let read = match self.environment.get(&variable) {
            Some(text) => of_text(text).map_err(|why| format!("{why} (from {variable})")),
            None => of_file(&given?),
        };
        read.map_err(|why| self.refuse(name, why)).ok()
    }

    /// A text, where it is given.
    pub(crate) fn optional<T: Text>(&mut self, name: &'static str) -> Option<T> {
        let found = self.find(name, T::parse, T::of_file)?;
        self.show(name, Value::String(found.show()));
        Some(found)
    }

    /// A text that has no default.
    pub(crate) fn needed<T: Text>(&mut self, name: &'static str) -> Option<T> {
        let found = self.optional(name);
        if found.is_none() {
            self.refuse_missing(name);
        }
        found
    }

    /// A text with a default.
    pub(crate) fn text<T: Text>(&mut self, name: &'static str, usual: T) -> T {
        let found = self.optional(name);
        found.unwrap_or_else(|| {
            self.show(name, Value::String(usual.show()));
            usual
        })
    }

    /// A duration within bounds.
    pub(crate) fn duration(
        &mut self,
        name: &'static str,
        usual: Duration,
        bounds: RangeInclusive<Duration>,
    ) -> Duration {
        self.optional_duration(name, bounds).unwrap_or_else(|| {
            self.show(name, Value::String(usual.show()));
            usual
        })
    }

    /// A duration within bounds, where it is given.
    pub(crate) fn optional_duration(
        &mut self,
        name: &'static str,
        bounds: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let given: Duration = self.optional(name)?;
        if bounds.contains(&given) {
            return Some(given);
        }
        let (least, most) = (bounds.start().show(), bounds.end().show());
        self.refuse(name, format!("{} must be {least} to {most}", given.show()));
        None
    }

    /// A whole number within bounds.
    pub(crate) fn number(
        &mut self,
        name: &'static str,
        usual: u64,
        bounds: RangeInclusive<u64>,
    ) -> u64 {
        self.optional_number(name, bounds).unwrap_or_else(|| {
            self.show(
                name,
                Value::Integer(i64::try_from(usual).unwrap_or(i64::MAX)),
            );
            usual
        })
    }

    /// A whole number within bounds, where it is given.
    pub(crate) fn optional_number(
        &mut self,
        name: &'static str,
        bounds: RangeInclusive<u64>,
    ) -> Option<u64> {
        let within = |given: i64| {
            let fits = u64::try_from(given)
                .ok()
                .filter(|given| bounds.contains(given));
            let (least, most) = (bounds.start(), bounds.end());
            fits.ok_or_else(|| format!("{given} must be {least} to {most}"))
        };
        let of_text = |text: &str| {
            let number: Result<i64, _> = text.parse();
            within(number.map_err(|_| format!("{text:?} is no whole number"))?)
        };
        let of_file = |value: &Value| {
            within(
                value
                    .as_integer()
                    .ok_or_else(|| mistyped(value, "a whole number"))?,
            )
        };
        let found = self.find(name, of_text, of_file)?;
        self.show(
            name,
            Value::Integer(i64::try_from(found).unwrap_or(i64::MAX)),
        );
        Some(found)
    }

    /// A count of things in memory, within bounds.
    pub(crate) fn count(
        &mut self,
        name: &'static str,
        usual: usize,
        bounds: RangeInclusive<usize>,
    ) -> usize {
        let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let bounds = wide(*bounds.start())..=wide(*bounds.end());
        let found = self.number(name, wide(usual), bounds);
        usize::try_from(found).unwrap_or(usize::MAX)
    }

    /// Yes or no.
    pub(crate) fn flag(&mut self, name: &'static str, usual: bool) -> bool {
        let of_text = |text: &str| {
            text.parse()
                .map_err(|_| format!("{text:?} must be true or false"))
        };
        let of_file = |value: &Value| {
            value
                .as_bool()
                .ok_or_else(|| mistyped(value, "true or false"))
        };
        let found = self.find(name, of_text, of_file).unwrap_or(usual);
        self.show(name, Value::Boolean(found));
        found
    }

    /// One of a few words; the first is the default.
    pub(crate) fn choice<T: Copy>(&mut self, name: &'static str, words: &[(&'static str, T)]) -> T {
        let (usual, meaning) = words[0];
        let given = self.text(name, usual.to_owned());
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == given) {
            return *meaning;
        }
        let all: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        self.refuse(name, format!("{given:?} must be one of {}", all.join(", ")));
        meaning
    }

    /// One of a few words, without a default.
    pub(crate) fn needed_choice<T: Copy>(
        &mut self,
        name: &'static str,
        words: &[(&'static str, T)],
    ) -> T {
        let is_given = self.rest.contains_key(name)
            || self
                .environment
                .get(&self.path.key(name).variable())
                .is_some();
        if !is_given {
            self.refuse_missing(name);
        }
        self.choice(name, words)
    }

    /// A list of texts; what is not there is empty. Lists are set in the file only.
    pub(crate) fn list<T: Text>(&mut self, name: &'static str) -> Vec<T> {
        let of_text = |_: &str| Err("is a list, and a list is set in the file only".to_owned());
        let of_file = |value: &Value| {
            let items = value.as_array().ok_or_else(|| mistyped(value, "a list"))?;
            Ok(items.clone())
        };
        let items = self.find(name, of_text, of_file).unwrap_or_default();
        let mut made = Vec::new();
        for (place, item) in items.iter().enumerate() {
            match T::of_file(item) {
                Ok(one) => made.push(one),
                Err(why) => self.refuse(&format!("{name}[{place}]"), why),
            }
        }
        let shown = made.iter().map(|one| Value::String(one.show())).collect();
        self.show(name, Value::Array(shown));
        made
    }
}
