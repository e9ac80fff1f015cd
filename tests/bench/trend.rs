//! The growth of a measured value over time.

/// Number of parts that the time is cut into. Neighboring measurements are correlated, but the means of such parts hardly are:
/// a line through them has an honest confidence interval.
const PARTS: usize = 12;
/// The 97.5% quantile of Student's t distribution for a line through twelve points.
const STUDENT: f64 = 2.228;

/// The slope of a line through the measurements.
pub struct Growth {
    pub per_hour: f64,
    /// Half the width of the 95% confidence interval.
    pub bound: f64,
}

impl Growth {
    /// From values at their hours, in time order. With fewer than two per part there is no estimate.
    pub fn of(points: &[(f64, f64)]) -> Self {
        if points.len() < 2 * PARTS {
            return Self { per_hour: 0.0, bound: f64::INFINITY };
        }
        let mean = |values: &[(f64, f64)]| {
            let (x, y) = values.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
            (x / values.len() as f64, y / values.len() as f64)
        };
        let part = |number: usize| &points[number * points.len() / PARTS..(number + 1) * points.len() / PARTS];
        let means: Vec<(f64, f64)> = (0..PARTS).map(|number| mean(part(number))).collect();
        let (center_x, center_y) = mean(&means);
        let spread: f64 = means.iter().map(|(x, _)| (x - center_x).powi(2)).sum();
        let slope = means.iter().map(|(x, y)| (x - center_x) * (y - center_y)).sum::<f64>() / spread;
        let rest: f64 = means.iter().map(|(x, y)| (y - center_y - slope * (x - center_x)).powi(2)).sum();
        Self { per_hour: slope, bound: STUDENT * (rest / (PARTS - 2) as f64 / spread).sqrt() }
    }
}

/// The median; 0 if there are no values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
