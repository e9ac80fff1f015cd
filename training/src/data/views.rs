//! How often a run sees each text. Small corpora in many languages make many pairs out of few texts, which are memorized
//! without a limit: the encoder then knows their sentences but not their languages.

use std::collections::BTreeMap;

/// Rounds of scaling down and compensating; the excess shrinks with each round.
const ROUNDS: usize = 50;

/// The texts of one shard and the pairs that are drawn from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShardUsage {
    /// Number of texts that can be drawn, summed over the languages.
    pub texts: f64,
    /// Share of all pairs, 0 to 1.
    pub share: f64,
}

impl ShardUsage {
    /// How often each text is seen in `pairs` pairs of the run, on average; 0 if there is none.
    pub fn views(&self, pairs: f64) -> f64 {
        2.0 * self.share * pairs / self.texts.max(1.0)
    }
}

/// The factors that change the shards' shares so that no text is seen more than `views_max` times in `pairs` pairs. The mass
/// that this removes goes to the other shards in proportion. If there are too few texts overall, all are seen more often,
/// equally.
pub fn factors(shards: &[ShardUsage], pairs: f64, views_max: f64) -> Vec<f64> {
    let mut factors = vec![1.0; shards.len()];
    let total: f64 = shards.iter().map(|shard| shard.share).sum();
    let texts: f64 = shards.iter().filter(|shard| shard.share > 0.0).map(|shard| shard.texts).sum();
    let views_max = views_max.max(2.0 * total * pairs / texts.max(1.0));
    let views = |number: usize, factor: f64| factor * shards[number].views(pairs);
    for _ in 0..ROUNDS {
        for (number, factor) in factors.iter_mut().enumerate() {
            *factor *= (views_max / views(number, *factor).max(1e-12)).min(1.0);
        }
        let is_free = |number: usize, factor: f64| views(number, factor) < 0.999 * views_max;
        let share = |free: bool| -> f64 {
            let counts = factors.iter().enumerate().filter(|&(number, factor)| is_free(number, *factor) == free);
            counts.map(|(number, factor)| factor * shards[number].share).sum()
        };
        let (free, full) = (share(true), share(false));
        if free <= 0.0 {
            break;
        }
        let grow = (total - full) / free;
        for (number, factor) in factors.iter_mut().enumerate() {
            if is_free(number, *factor) {
                *factor *= grow;
            }
        }
    }
    factors
}

/// The corpora by views, most seen first, as lines for the log: the first ten and the last ten.
pub fn lines(views: &BTreeMap<String, f64>) -> Vec<String> {
    let mut sorted: Vec<(&String, f64)> =
        views.iter().map(|(name, views)| (name, *views)).filter(|(_, views)| *views > 0.0).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let list =
        |part: &[(&String, f64)]| part.iter().map(|(name, views)| format!("{name} {views:.1}")).collect::<Vec<_>>().join(", ");
    let ten = sorted.len().min(10);
    vec![
        format!("a text is seen most often in {}", list(&sorted[..ten])),
        format!("a text is seen least often in {}", list(&sorted[sorted.len() - ten..])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(texts: f64, share: f64) -> ShardUsage {
        ShardUsage { texts, share }
    }

    #[test]
    fn overused_shards_are_scaled_down_and_the_others_scaled_up() {
        // 1,000 pairs: 2 x 0.5 x 1,000 / 50 = 20 views, 2 x 0.3 x 1,000 / 300 = 2, 2 x 0.2 x 1,000 / 400 = 1.
        let shards = [drawn(50.0, 0.5), drawn(300.0, 0.3), drawn(400.0, 0.2)];
        let factors = factors(&shards, 1_000.0, 10.0);
        let shares: Vec<f64> = factors.iter().zip(&shards).map(|(factor, shard)| factor * shard.share).collect();
        // The first keeps 10 views, a share of 0.25; the remaining 0.75 are divided 3 to 2.
        for (got, expect) in shares.into_iter().zip([0.25, 0.45, 0.3]) {
            assert!((got - expect).abs() < 1e-6, "{got}, expected {expect}");
        }
    }

    #[test]
    fn shards_within_the_limit_keep_their_share() {
        assert_eq!(factors(&[drawn(1_000.0, 0.4), drawn(2_000.0, 0.6)], 1_000.0, 5.0), [1.0, 1.0]);
    }

    #[test]
    fn when_texts_are_too_few_all_are_seen_equally_often() {
        let shards = [drawn(10.0, 0.9), drawn(90.0, 0.1)];
        let factors = factors(&shards, 1_000.0, 2.0);
        for (factor, shard) in factors.into_iter().zip(shards) {
            assert!((factor * shard.views(1_000.0) - 20.0).abs() < 0.1, "{}", factor * shard.views(1_000.0));
        }
    }

    #[test]
    fn the_log_lists_corpora_with_the_most_views_first() {
        let views = [("ntrex", 15.0), ("freedict", 0.84), ("unused", 0.0)].map(|(name, views)| (name.to_owned(), views)).into();
        let corpora = "ntrex 15.0, freedict 0.8";
        let expect = ["most", "least"].map(|which| format!("a text is seen {which} often in {corpora}"));
        assert_eq!(lines(&views), expect);
        let many = (1..=12_u8).map(|n| (format!("corpus-{n}"), f64::from(n))).collect();
        let [most, least]: [String; 2] = lines(&many).try_into().unwrap();
        assert!(most.contains(" most often in corpus-12 12.0, ") && most.ends_with(", corpus-3 3.0"), "{most}");
        assert!(least.contains(" least often in corpus-10 10.0, ") && least.ends_with(", corpus-1 1.0"), "{least}");
    }
}
