//! The names of enum variants without data, as the API and the catalog write them.

/// Gives an enum `ALL`, `name` and `parse`.
macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// All variants.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in the API and in the catalog.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The variant with this name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }

            /// The same; the error lists all names.
            pub fn try_parse(name: &str) -> Result<Self, String> {
                let all = || Self::ALL.map(Self::name).join(", ");
                Self::parse(name).ok_or_else(|| format!("must be one of {}, got {name:?}", all()))
            }
        }
    };
}

pub(crate) use names;
