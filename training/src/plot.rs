//! Draws the loss log of a run, a CSV file, as an SVG file. Text uses the viewer's fonts, so none have to be installed.

use std::path::Path;

use plotters::prelude::*;
use plotters::series::LineSeries;

use crate::error::Error;

const SIZE: (u32, u32) = (960, 480);
const COLORS: [RGBColor; 4] = [RGBColor(31, 119, 180), RGBColor(214, 39, 40), RGBColor(44, 160, 44), RGBColor(148, 103, 189)];
const STAGE_COLUMN: &str = "stage";
const STEP_COLUMN: &str = "step";

/// One line of the chart.
#[derive(Debug, Clone, PartialEq)]
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Draws the `columns` of the log `csv` over its steps into `svg`, which is replaced atomically. The steps of later stages
/// continue where the previous stage ended. If a stage does not run an objective, its fields are empty, or 0 in old logs; a
/// column with nothing else is left out.
pub fn plot(csv: &Path, columns: &[&str], svg: &Path) -> Result<(), Error> {
    let text = std::fs::read_to_string(csv).map_err(|source| Error::file(csv, source))?;
    let curves = read(csv, &text, columns)?;
    let mut drawn = String::new();
    draw(&curves, &mut drawn).map_err(|problem| Error::Content { path: svg.to_owned(), problem })?;
    let partial = svg.with_extension("partial");
    std::fs::write(&partial, drawn).map_err(|source| Error::file(&partial, source))?;
    std::fs::rename(&partial, svg).map_err(|source| Error::file(svg, source))
}

fn read(csv: &Path, text: &str, columns: &[&str]) -> Result<Vec<Curve>, Error> {
    let content = |problem: String| Error::Content { path: csv.to_owned(), problem };
    let header: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
    let find =
        |name: &str| header.iter().position(|&column| column == name).ok_or_else(|| content(format!("expected a column {name}")));
    let (stage_at, step_at) = (find(STAGE_COLUMN)?, find(STEP_COLUMN)?);
    let columns_at: Vec<usize> = columns.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
    let mut curves: Vec<Curve> = columns.iter().map(|name| Curve { name: (*name).to_owned(), points: Vec::new() }).collect();
    let (mut stage, mut stage_start, mut last) = ("", 0.0, 0.0);
    for (number, line) in text.lines().enumerate().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |column: usize| fields.get(column).copied().unwrap_or_default();
        let number_at = |column: usize| {
            field(column).parse::<f64>().map_err(|_| Error::Line {
                path: csv.to_owned(),
                line: number + 1,
                problem: "expected a number",
            })
        };
        if field(stage_at) != stage {
            (stage, stage_start) = (field(stage_at), last);
        }
        let step = stage_start + number_at(step_at)?;
        for (curve, &column) in curves.iter_mut().zip(&columns_at) {
            // A resumed run repeated some steps; the later values count.
            curve.points.retain(|point| point.0 < step);
            if !field(column).is_empty() {
                curve.points.push((step, number_at(column)?));
            }
        }
        last = step;
    }
    curves.retain(|curve| curve.points.iter().any(|point| point.1 != 0.0));
    Ok(curves)
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
        series.label(&curve.name).legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], color.stroke_width(2)));
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

    const LOG: &str = "stage,step,contrastive,xtr,rate\nbag,10,5.0,0.0,1\nbag,20,4.0,0.0,1\njoint,10,3.0,9.5,1\n";

    fn curves(text: &str, columns: &[&str]) -> Vec<Curve> {
        read(Path::new("loss.csv"), text, columns).unwrap()
    }

    #[test]
    fn steps_of_a_later_stage_continue_those_of_the_previous_one() {
        let expect = Curve { name: "contrastive".to_owned(), points: vec![(10.0, 5.0), (20.0, 4.0), (30.0, 3.0)] };
        assert_eq!(curves(LOG, &["contrastive"]), [expect]);
    }

    #[test]
    fn an_objective_that_never_ran_has_no_curve() {
        let without_xtr = "stage,step,contrastive,xtr\nbag,10,5.0,0.0\n";
        assert_eq!(curves(without_xtr, &["contrastive", "xtr"]).len(), 1);
        assert_eq!(curves(LOG, &["contrastive", "xtr"]).len(), 2);
    }

    #[test]
    fn a_stage_that_does_not_run_an_objective_adds_no_points_to_its_curve() {
        let log = "stage,step,contrastive,xtr\nbag,10,5.0,\njoint,10,3.0,9.5\n";
        assert_eq!(curves(log, &["xtr"])[0].points, [(20.0, 9.5)]);
    }

    #[test]
    fn repeated_steps_replace_the_earlier_points() {
        let resumed = "stage,step,xtr\na,10,5.0\na,20,4.0\na,15,3.5\n";
        assert_eq!(curves(resumed, &["xtr"])[0].points, [(10.0, 5.0), (15.0, 3.5)]);
    }

    #[test]
    fn malformed_logs_are_refused() {
        for (text, expect) in [
            ("", "expected a column stage"),
            ("stage,step\n", "expected a column xtr"),
            ("stage,step,xtr\na,1,?\n", "loss.csv:2: expected a number"),
        ] {
            let error = read(Path::new("loss.csv"), text, &["xtr"]).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn the_drawing_labels_its_curves_and_axes() {
        let folder = tempfile::tempdir().unwrap();
        let (csv, svg) = (folder.path().join("loss.csv"), folder.path().join("loss.svg"));
        std::fs::write(&csv, LOG).unwrap();
        plot(&csv, &["contrastive", "xtr"], &svg).unwrap();
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
