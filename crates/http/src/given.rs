//! JSON as clients send it. A field of the wrong shape is noted instead of ending the reading, so that
//! everything that is wrong can be told at once; unknown fields and fields given twice are noted too.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// What stood in a field. `null` is the same as leaving it out.
#[derive(Default)]
pub(crate) enum Given<T> {
    #[default]
    Absent,
    Is(T),
    /// Something else; this is what.
    Other(&'static str),
}

/// What a field must hold. A shape takes one kind of JSON value and refuses the others by default.
pub(crate) trait Shape<'de>: Sized {
    /// That kind, for a person.
    const EXPECTED: &'static str;

    /// What a number is told to be that is not taken.
    const NUMBER: &'static str = "a number";

    fn of_text(_: Cow<'de, str>) -> Option<Self> {
        None
    }

    fn of_number(_: u64) -> Option<Self> {
        None
    }

    fn of_bool(_: bool) -> Option<Self> {
        None
    }

    fn of_object<A: MapAccess<'de>>(mut object: A) -> Result<Option<Self>, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl<'de, T: Shape<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader(PhantomData))
    }
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: Shape<'de>> Visitor<'de> for Reader<T> {
    type Value = Given<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Given::Absent)
    }

    fn visit_bool<E: Error>(self, given: bool) -> Result<Self::Value, E> {
        Ok(T::of_bool(given).map_or(Given::Other("a boolean"), Given::Is))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Given::Other("a negative number"))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(T::of_number(number).map_or(Given::Other(T::NUMBER), Given::Is))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Given::Other("a fraction or a number beyond 64 bits"))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(T::of_text(Cow::Borrowed(text)).map_or(Given::Other("a string"), Given::Is))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let text = Cow::Owned(text.to_owned());
        Ok(T::of_text(text).map_or(Given::Other("a string"), Given::Is))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Ok(T::of_list(list)?.map_or(Given::Other("an array"), Given::Is))
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        Ok(T::of_object(object)?.map_or(Given::Other("an object"), Given::Is))
    }
}

/// A string.
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de> Shape<'de> for Text<'de> {
    const EXPECTED: &'static str = "a string";

    fn of_text(text: Cow<'de, str>) -> Option<Self> {
        Some(Self(text))
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Given::deserialize(deserializer)? {
            Given::Is(text) => Ok(text),
            Given::Absent | Given::Other(_) => Err(D::Error::custom("not a string")),
        }
    }
}

/// The greatest number that every writer and reader of JSON keeps exact (2^53 − 1).
pub(crate) const EXACT_MAX: u64 = 9_007_199_254_740_991;

/// An amount: a string, or a number that is exact in whatever wrote it. What is above that may be another number than
/// its sender meant.
pub(crate) struct Amount<'a>(pub(crate) Cow<'a, str>);

impl<'de> Shape<'de> for Amount<'de> {
    const EXPECTED: &'static str = "a string, or a whole number below 2^53";
    const NUMBER: &'static str = "a number of 2^53 or more, which JSON does not keep exact";

    fn of_text(text: Cow<'de, str>) -> Option<Self> {
        Some(Self(text))
    }

    fn of_number(number: u64) -> Option<Self> {
        (number <= EXACT_MAX).then(|| Self(number.to_string().into()))
    }
}

/// A whole number that is not negative.
pub(crate) struct Whole(pub(crate) u64);

impl Shape<'_> for Whole {
    const EXPECTED: &'static str = "a whole number";

    fn of_number(number: u64) -> Option<Self> {
        Some(Self(number))
    }
}

/// Yes or no.
pub(crate) struct Flag(pub(crate) bool);

impl Shape<'_> for Flag {
    const EXPECTED: &'static str = "a boolean";

    fn of_bool(given: bool) -> Option<Self> {
        Some(Self(given))
    }
}

/// A list. Of one that is too long only the first elements are kept: memory stays bounded by `MAX`.
pub(crate) struct List<T, const MAX: usize> {
    pub(crate) items: Vec<T>,
    pub(crate) is_too_long: bool,
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Shape<'de> for List<T, MAX> {
    const EXPECTED: &'static str = "an array";

    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        let mut items = Vec::new();
        while items.len() < MAX {
            match list.next_element()? {
                Some(item) => items.push(item),
                None => break,
            }
        }
        let mut is_too_long = false;
        while list.next_element::<IgnoredAny>()?.is_some() {
            is_too_long = true;
        }
        Ok(Some(Self { items, is_too_long }))
    }
}

/// Whether a field was filled before, so that one given twice is noticed.
pub(crate) trait Slot {
    fn is_filled(&self) -> bool;
}

impl<T> Slot for Given<T> {
    fn is_filled(&self) -> bool {
        !matches!(self, Self::Absent)
    }
}

impl Slot for Option<&RawValue> {
    fn is_filled(&self) -> bool {
        self.is_some()
    }
}

/// What an object held besides its fields.
#[derive(Default)]
pub(crate) struct Extras(pub(crate) Vec<(String, &'static str)>);

impl Extras {
    /// More are dropped; the first ones are told.
    const MAX: usize = 50;

    pub(crate) fn note(&mut self, field: &str, detail: &'static str) {
        if self.0.len() < Self::MAX {
            self.0.push((field.to_owned(), detail));
        }
    }
}

/// Says which fields an object has. The type needs a field `extras` and a default.
macro_rules! object {
    ($name:ident { $($key:literal => $field:ident,)+ }) => {
        impl<'de> $crate::given::Shape<'de> for $name<'de> {
            const EXPECTED: &'static str = "an object";

            fn of_object<A: serde::de::MapAccess<'de>>(
                mut object: A,
            ) -> Result<Option<Self>, A::Error> {
                use $crate::given::Slot;
                let mut read = Self::default();
                while let Some($crate::given::Text(key)) = object.next_key()? {
                    match &*key {
                        $($key => {
                            if read.$field.is_filled() {
                                read.extras.note($key, "is given twice");
                            }
                            read.$field = object.next_value()?;
                        })+
                        unknown => {
                            read.extras.note(unknown, "is not a field of this request");
                            object.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(Some(read))
            }
        }
    };
}
pub(crate) use object;
