//! How a word sounds, approximately, to recognize a name in another script.

/// Number of bits of a symbol, and of all symbols of a word.
const SYMBOL_BITS: u32 = 5;
const SYMBOLS_BITS: u32 = SYMBOL_BITS * SOUND_SYMBOLS_MAX as u32;
const SYMBOL_MASK: u64 = (1 << SYMBOL_BITS) - 1;
const SYMBOLS_MASK: u64 = (1 << SYMBOLS_BITS) - 1;
/// Maximum number of symbols of a sound. The rest of a longer word is ignored.
pub const SOUND_SYMBOLS_MAX: usize = 12;

/// A sound that a letter or a group of letters stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the letters that usually write the sounds")]
#[repr(u8)]
pub enum SoundSymbol {
    A = 1,
    E,
    I,
    O,
    U,
    B,
    P,
    F,
    V,
    W,
    D,
    T,
    G,
    K,
    H,
    S,
    Z,
    Sh,
    Ch,
    Ts,
    M,
    N,
    L,
    R,
    Y,
}

impl SoundSymbol {
    /// All symbols, in the order of their numbers, which start with 1.
    pub const ALL: [Self; 25] = {
        use SoundSymbol::*;
        [A, E, I, O, U, B, P, F, V, W, D, T, G, K, H, S, Z, Sh, Ch, Ts, M, N, L, R, Y]
    };

    /// Whether it is a vowel.
    pub fn is_vowel(self) -> bool {
        self <= Self::U
    }

    /// Whether it is a real consonant: not a vowel, and not a sound that many languages write as a vowel or leave out.
    pub fn is_consonant(self) -> bool {
        !self.is_vowel() && !matches!(self, Self::W | Self::H | Self::Y)
    }
}

/// The script of a word, as far as it matters for sounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say what they are")]
#[repr(u8)]
pub enum Script {
    Other,
    Latin,
    Greek,
    Cyrillic,
    Hebrew,
    Arabic,
    Indic,
    Kana,
    Han,
    Hangul,
}

impl Script {
    const ALL: [Self; 10] = {
        use Script::*;
        [Other, Latin, Greek, Cyrillic, Hebrew, Arabic, Indic, Kana, Han, Hangul]
    };

    /// Whether most vowels are not written.
    pub fn omits_vowels(self) -> bool {
        matches!(self, Self::Hebrew | Self::Arabic)
    }
}

/// The symbols of a word and its script, or nothing for a word that has no sound, such as a number.
///
/// Each symbol takes five bits, the first one the lowest; the script takes the highest four.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Sound(u64);

impl Sound {
    /// No sound.
    pub const NONE: Self = Self(0);

    /// Makes the sound of a word. Symbols beyond `SOUND_SYMBOLS_MAX` are ignored.
    pub fn new(script: Script, symbols: &[SoundSymbol]) -> Self {
        let packed = symbols.iter().take(SOUND_SYMBOLS_MAX).rev().fold(0, |all, symbol| all << SYMBOL_BITS | *symbol as u64);
        Self((script as u64) << SYMBOLS_BITS | packed)
    }

    /// Whether it has no symbols.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Returns the symbols, in order.
    pub fn symbols(self) -> impl Iterator<Item = SoundSymbol> {
        let packed = self.0 & SYMBOLS_MASK;
        let number = move |index: usize| (packed >> (index as u32 * SYMBOL_BITS) & SYMBOL_MASK) as usize;
        (0..SOUND_SYMBOLS_MAX).map_while(move |index| SoundSymbol::ALL.get(number(index).wrapping_sub(1)).copied())
    }

    /// Returns the script of the word.
    pub fn script(self) -> Script {
        Script::ALL.get((self.0 >> SYMBOLS_BITS) as usize).copied().unwrap_or(Script::Other)
    }

    /// Returns it as a number, as it is stored. 0 is no sound.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Reads the output of `to_bits`. Returns `None` for a number that is no sound.
    pub fn from_bits(bits: u64) -> Option<Self> {
        let sound = Self(bits);
        // Nothing follows the last symbol.
        let after = (bits & SYMBOLS_MASK) >> (SYMBOL_BITS * sound.symbols().count() as u32);
        ((bits >> SYMBOLS_BITS) < Script::ALL.len() as u64 && after == 0).then_some(sound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_round_trips_with_its_symbols_and_script() {
        let symbols = [SoundSymbol::K, SoundSymbol::A, SoundSymbol::Y];
        let sound = Sound::new(Script::Hangul, &symbols);
        assert_eq!((sound.symbols().collect::<Vec<_>>(), sound.script()), (symbols.to_vec(), Script::Hangul));
        assert_eq!(Sound::from_bits(sound.to_bits()), Some(sound));
        assert_eq!(Sound::new(Script::Latin, &SoundSymbol::ALL).symbols().count(), SOUND_SYMBOLS_MAX);
        assert!(SoundSymbol::ALL.iter().enumerate().all(|(index, symbol)| *symbol as usize == index + 1));
        assert!(Script::ALL.iter().enumerate().all(|(index, script)| *script as usize == index));
    }

    #[test]
    fn the_absence_of_a_sound_is_stored_as_zero() {
        assert_eq!((Sound::NONE.to_bits(), Sound::from_bits(0)), (0, Some(Sound::NONE)));
        assert!(Sound::NONE.symbols().next().is_none());
    }

    #[test]
    fn bits_that_encode_no_sound_are_refused() {
        let gap = u64::from(SoundSymbol::A as u8) << (2 * SYMBOL_BITS);
        assert_eq!([gap, 31, 15 << SYMBOLS_BITS].map(Sound::from_bits), [None; 3]);
    }
}
