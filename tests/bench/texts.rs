//! Texts of a given length, in several languages and scripts.

#[path = "random.rs"]
mod random;

use dragoman::text::Tokenizer;
use random::Random;

/// Sentences to compose queries from.
const SENTENCES: [&str; 10] = [
    "The library near the river opens at nine and closes late on weekends.",
    "Der Zug nach Hamburg hat heute wegen des Sturms zwanzig Minuten Verspätung.",
    "La recette demande trois œufs, un peu de farine et beaucoup de patience.",
    "El museo abrió una sala nueva dedicada a los instrumentos de navegación.",
    "Учёные нашли древнюю рукопись в подвале старого монастыря.",
    "Η μικρή πόλη γιορτάζει κάθε χρόνο το τέλος του καλοκαιριού.",
    "यह पुल दो सौ साल पहले पत्थर से बनाया गया था।",
    "تزرع القرية الزيتون منذ مئات السنين على سفوح الجبل.",
    "Nhà máy mới sẽ tạo việc làm cho hơn một nghìn người.",
    "Çocuklar okuldan sonra parkta uçurtma uçurmayı çok seviyor.",
];

/// Returns `count` different texts of about `tokens` tokens, from whole words of these sentences in random order. In the
/// original order, texts would be so similar that an index clusters most of them together.
pub fn texts(tokenizer: &Tokenizer, tokens: usize, count: usize) -> Vec<String> {
    let words: Vec<&str> = SENTENCES.iter().flat_map(|sentence| sentence.split_whitespace()).collect();
    let build = |number: usize| {
        let mut text = String::new();
        let mut random = Random(((tokens as u64) << 32) | number as u64);
        for _ in 0..tokens {
            let word = words[random.below(words.len())];
            let longer = if text.is_empty() { (*word).to_owned() } else { format!("{text} {word}") };
            let fits = tokenizer.encode(&longer, tokens).is_ok_and(|read| !read.truncated);
            if !fits {
                break;
            }
            text = longer;
        }
        text
    };
    (0..count).map(build).collect()
}
