//! Draws the loss log of a run as an SVG file. Text uses the viewer's fonts, so none have to be installed.

use std::path::Path;

use plotters::prelude::*;
use plotters::series::LineSeries;

use super::log::{self, Row};
use crate::error::Error;
use crate::objective::Objective;

const SIZE: (u32, u32) = (960, 480);
const COLORS: [RGBColor; 4] = [RGBColor(31, 119, 180), RGBColor(214, 39, 40), RGBColor(44, 160, 44), RGBColor(148, 103, 189)];

/// One line of the chart.
#[derive(Debug, Clone, PartialEq)]
struct Curve {
    objective: Objective,
    points: Vec<(f64, f64)>,
}

/// Draws the losses of the log's `rows` over its steps into `svg`, which is replaced atomically. The steps of later stages
/// continue where the previous stage ended. If a stage does not run an objective, it has no loss of it, or 0 in old logs; an
/// objective with nothing else is left out.
pub fn plot(rows: &[Row], svg: &Path) -> Result<(), Error> {
    let mut drawn = String::new();
    draw(&curves(rows), &mut drawn).map_err(|problem| Error::Content { path: svg.to_owned(), problem })?;
    log::replace(svg, &drawn)
}

fn curves(rows: &[Row]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Objective::ALL.map(|objective| Curve { objective, points: Vec::new() }).into();
    let (mut stage, mut stage_start, mut last) = ("", 0.0, 0.0);
    for row in rows {
        if row.stage != stage {
            (stage, stage_start) = (&row.stage, last);
        }
        let step = stage_start + row.step as f64;
        for Curve { objective, points } in &mut curves {
            // A resumed run repeated some steps; the later values count.
            points.retain(|point| point.0 < step);
            points.extend(row.losses.iter().filter(|(other, _)| other == objective).map(|(_, loss)| (step, *loss)));
        }
        last = step;
    }
    curves.retain(|curve| curve.points.iter().any(|point| point.1 != 0.0));
    curves
}

fn draw(curves: &[Curve], out: &mut String) -> Result<(), String> {
    let points = || curves.iter().flat_map(|curve| &curve.points).filter(|point| point.1.is_finite());
    let (steps, highest) =
        points().fold((1.0_f64, 0.0_f64), |(steps, highest), point| (steps.max(point.0), highest.max(point.1)));
    let highest = if highest > 0.0 { highest * 1.05 } else { 1.0 };
    let root = SVGBackend::with_string(out, SIZE).into_drawing_area();
    let drawing = |error: DrawingAreaErrorKind<_>| format!("cannot draw: {error}");
    root.fill(&WHITE).map_err(drawing)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..steps, 0.0..highest)
        .map_err(drawing)?;
    chart.configure_mesh().light_line_style(TRANSPARENT).x_desc("step").y_desc("loss").draw().map_err(drawing)?;
    for (curve, color) in curves.iter().zip(COLORS.iter().cycle()) {
        let finite = curve.points.iter().copied().filter(|point| point.1.is_finite());
        let series = chart.draw_series(LineSeries::new(finite, color.stroke_width(2))).map_err(drawing)?;
        series
            .label(curve.objective.name())
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    if !curves.is_empty() {
        chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw().map_err(drawing)?;
    }
    drop(chart);
    root.present().map_err(drawing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const XTR: Objective = Objective::Xtr;
    const CONTRASTIVE: Objective = Objective::Contrastive;

    fn row(stage: &str, step: u64, losses: &[(Objective, f64)]) -> Row {
        let (learning_rate, gradient_norm, pairs_per_second, elapsed_s) = (1e-3, 0.5, 100.0, 15.0);
        let (stage, losses) = (stage.to_owned(), losses.to_vec());
        Row { stage, step, losses, learning_rate, gradient_norm, pairs_per_second, elapsed_s }
    }

    fn rows() -> [Row; 3] {
        [
            row("bag", 10, &[(CONTRASTIVE, 5.0), (XTR, 0.0)]),
            row("bag", 20, &[(CONTRASTIVE, 4.0), (XTR, 0.0)]),
            row("joint", 10, &[(CONTRASTIVE, 3.0), (XTR, 9.5)]),
        ]
    }

    #[test]
    fn steps_of_a_later_stage_continue_those_of_the_previous_one() {
        let expect = Curve { objective: CONTRASTIVE, points: vec![(10.0, 5.0), (20.0, 4.0), (30.0, 3.0)] };
        assert_eq!(curves(&rows())[0], expect);
    }

    #[test]
    fn an_objective_that_never_ran_has_no_curve() {
        assert_eq!(curves(&rows()[..1]).len(), 1);
        assert_eq!(curves(&rows()).len(), 2);
    }

    #[test]
    fn a_stage_that_does_not_run_an_objective_adds_no_points_to_its_curve() {
        let rows = [row("bag", 10, &[(CONTRASTIVE, 5.0)]), row("joint", 10, &[(CONTRASTIVE, 3.0), (XTR, 9.5)])];
        assert_eq!(curves(&rows)[1].points, [(20.0, 9.5)]);
    }

    #[test]
    fn repeated_steps_replace_the_earlier_points() {
        let resumed = [(10, 5.0), (20, 4.0), (15, 3.5)].map(|(step, loss)| row("a", step, &[(XTR, loss)]));
        assert_eq!(curves(&resumed)[0].points, [(10.0, 5.0), (15.0, 3.5)]);
    }

    #[test]
    fn the_drawing_labels_its_curves_and_axes() {
        let folder = tempfile::tempdir().unwrap();
        let svg = folder.path().join("loss.svg");
        plot(&rows(), &svg).unwrap();
        let drawn = std::fs::read_to_string(&svg).unwrap();
        assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"));
        for text in ["contrastive", "xtr", "step", "loss"] {
            assert!(drawn.contains(text), "{text}");
        }
    }

    #[test]
    fn an_empty_log_is_drawn_as_an_empty_chart() {
        let mut drawn = String::new();
        draw(&[], &mut drawn).unwrap();
        assert!(drawn.contains("</svg>"));
    }
}
