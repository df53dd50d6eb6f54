//! One macro: an enum whose variants have the words that SQL, logs and the API show.

macro_rules! words {
    (
        $(#[$doc:meta])*
        $name:ident($column:literal) {
            $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every variant, in the order of its definition.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word that SQL, logs and the API show.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Reads the word back.
            pub fn from_word(word: &str) -> Result<Self, $crate::ids::Corrupt> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::ids::Corrupt { column: $column }),
                }
            }
        }
    };
}
