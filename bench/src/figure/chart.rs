//! One chart: curves over an axis, as SVG.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::laboratory::Laboratory;

/// Curves over an axis.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The name of its file, without the ending.
    pub file: &'static str,
    /// A description of the chart, for readers who cannot see it.
    pub title: &'static str,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
    /// A value that curves are compared with, and its name.
    pub limit: Option<(f64, &'static str)>,
}

/// An axis of a chart.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// The name of the quantity, with its unit.
    pub label: &'static str,
    /// How the axis is spaced.
    pub spacing: Spacing,
}

/// The spacing of an axis: what equal distances mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal factors, with ticks at powers of two.
    Doubling,
    /// Equal distances are equal factors, with ticks at powers of ten.
    Decimal,
}

/// A curve: points with a name.
#[derive(Debug, Clone)]
pub struct Curve {
    /// The name of the curve.
    pub label: String,
    /// The command lines whose rows are its points.
    pub lines: Vec<String>,
    /// The field of a row on the horizontal axis.
    pub x: &'static str,
    /// The field of a row on the vertical axis.
    pub y: &'static str,
    /// The number of its colour and mark.
    pub look: usize,
    /// Whether it is dashed, to differ from a curve of the same colour.
    pub is_dashed: bool,
}

/// An error in drawing. None is known to happen, since the drawing goes into a string.
pub type DrawingError = DrawingAreaErrorKind<std::io::Error>;

/// The width of a chart in units. With so few units, a text of 17 units can be read on a telephone
/// that is 360 wide.
const WIDTH: u32 = 460;
const HEIGHT: u32 = 330;
const LEGEND_ROW: i32 = 21;
const FONT: (&str, i32) = ("sans-serif", 17);
const INK: RGBColor = RGBColor(34, 34, 34);

/// Colours that colour-blind readers can tell apart ([OI] Okabe and Ito's palette).
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
];

impl Curve {
    /// A solid curve.
    pub fn new(
        label: impl Into<String>,
        lines: Vec<String>,
        x: &'static str,
        y: &'static str,
        look: usize,
    ) -> Self {
        Self {
            label: label.into(),
            lines,
            x,
            y,
            look,
            is_dashed: false,
        }
    }

    /// The same curve, dashed.
    pub fn dashed(self) -> Self {
        Self {
            is_dashed: true,
            ..self
        }
    }

    /// The points for which there are numbers, from left to right.
    pub fn points(&self, laboratory: &Laboratory) -> Vec<(f64, f64)> {
        let number = |line, field| laboratory.number(line, field);
        let points = self.lines.iter();
        let points = points.map(|line| (number(line, self.x), number(line, self.y)));
        let mut points: Vec<_> = points
            .filter(|(x, y)| x.is_finite() && y.is_finite())
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }
}

impl Spacing {
    /// The place of a quantity along the axis.
    fn place(self, quantity: f64) -> f64 {
        match self {
            Self::Linear => quantity,
            Self::Doubling => quantity.log2(),
            Self::Decimal => quantity.log10(),
        }
    }

    /// The quantity at a place, as text.
    fn text(self, place: f64) -> String {
        let quantity = match self {
            Self::Linear => place,
            Self::Doubling => place.exp2(),
            Self::Decimal => 10_f64.powf(place),
        };
        let (unit, sign) = match quantity.abs() {
            // Powers of two are counted in 1024, as the papers do.
            size if self == Self::Doubling && size >= 1_048_576.0 => (1_048_576.0, "M"),
            size if self == Self::Doubling && size >= 1024.0 => (1024.0, "K"),
            size if size >= 1e9 => (1e9, "G"),
            size if size >= 1e6 => (1e6, "M"),
            size if size >= 1e4 => (1e3, "k"),
            _ => (1.0, ""),
        };
        // Remove the noise of the last digits.
        let rounded = (quantity / unit * 1e9).round() / 1e9;
        format!("{rounded}{sign}")
    }

    /// The range of places that holds these quantities; none if there are none.
    fn range(self, quantities: impl Iterator<Item = f64>, room: usize) -> Option<Places> {
        let places = quantities.map(|quantity| self.place(quantity));
        let places: Vec<f64> = places.filter(|place| place.is_finite()).collect();
        let low = places.iter().copied().reduce(f64::min)?;
        let high = places.iter().copied().reduce(f64::max)?;
        if self == Self::Linear {
            let high = if high > 0.0 { high * 1.05 } else { 1.0 };
            let range = RangedCoordf64::from(0.0..high);
            let ticks = range.key_points(room);
            return Some(Places { range, ticks });
        }
        let (first, last) = (low.floor(), high.ceil().max(low.floor() + 1.0));
        let step = ((last - first) / room as f64).ceil();
        let ticks = (0..).map(|tick| first + step * f64::from(tick));
        Some(Places {
            range: RangedCoordf64::from(first..last),
            ticks: ticks.take_while(|tick| *tick <= last).collect(),
        })
    }
}

/// Part of an axis, with its ticks where quantities are round.
#[derive(Clone)]
struct Places {
    range: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.range.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.range()
    }
}

impl Chart {
    /// The whole chart as one SVG document.
    pub fn draw(&self, laboratory: &Laboratory) -> Result<String, DrawingError> {
        let rows = self.curves.len().div_ceil(2) as i32;
        let size = (WIDTH, HEIGHT + (rows * LEGEND_ROW) as u32 + 8);
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            root.fill(&WHITE)?;
            let (plot, legend) = root.split_vertically(HEIGHT as i32);
            self.draw_plot(&plot, laboratory)?;
            self.draw_legend(&legend)?;
            root.present()?;
        }
        Ok(svg)
    }

    fn draw_plot(
        &self,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
        laboratory: &Laboratory,
    ) -> Result<(), DrawingError> {
        let curves: Vec<_> = self
            .curves
            .iter()
            .map(|curve| curve.points(laboratory))
            .collect();
        let all = || curves.iter().flatten();
        let limit = self.limit.map(|(height, _)| height);
        let x = self.x.spacing.range(all().map(|point| point.0), 8);
        let y = self
            .y
            .spacing
            .range(all().map(|point| point.1).chain(limit), 8);
        let (Some(x), Some(y)) = (x, y) else {
            return Ok(());
        };
        let (left, right) = (x.range().start, x.range().end);
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(18)
            .x_label_area_size(46)
            .y_label_area_size(68)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .x_label_formatter(&|place| self.x.spacing.text(*place))
            .y_label_formatter(&|place| self.y.spacing.text(*place))
            .bold_line_style(RGBColor(222, 222, 222))
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .label_style(FONT.into_font().color(&INK))
            .axis_desc_style(FONT.into_font().color(&INK))
            .draw()?;
        if let Some((height, name)) = self.limit {
            let height = self.y.spacing.place(height);
            let ends = [(left, height), (right, height)];
            chart.draw_series(LineSeries::new(ends, INK))?;
            let style = FONT.into_font().color(&INK);
            let style = style.pos(Pos::new(HPos::Left, VPos::Bottom));
            let at = (left + (right - left) * 0.02, height);
            chart.draw_series([Text::new(name, at, style)])?;
        }
        for (curve, points) in self.curves.iter().zip(curves) {
            let place = |(x, y)| (self.x.spacing.place(x), self.y.spacing.place(y));
            let places: Vec<(f64, f64)> = points.into_iter().map(place).collect();
            let style = curve.style();
            if curve.is_dashed {
                let places = places.iter().copied();
                chart.draw_series(DashedLineSeries::new(places, 5, 4, style))?;
            } else {
                chart.draw_series(LineSeries::new(places.iter().copied(), style))?;
            }
            chart.draw_series(places.into_iter().map(|at| curve.mark(at)))?;
        }
        Ok(())
    }

    /// Draw the legend below the plot, where it hides no curve.
    fn draw_legend(
        &self,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    ) -> Result<(), DrawingError> {
        for (place, curve) in self.curves.iter().enumerate() {
            let left = 14 + (place % 2) as i32 * (WIDTH as i32 / 2);
            let middle = (place / 2) as i32 * LEGEND_ROW + LEGEND_ROW / 2;
            let ends = [(left, middle), (left + 30, middle)];
            if curve.is_dashed {
                area.draw(&DashedPathElement::new(ends, 5, 4, curve.style()))?;
            } else {
                area.draw(&PathElement::new(ends, curve.style()))?;
            }
            area.draw(&curve.mark((left + 15, middle)))?;
            let style = FONT.into_font().color(&INK);
            let style = style.pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(curve.label.as_str(), (left + 38, middle), style))?;
        }
        Ok(())
    }
}

impl Curve {
    fn style(&self) -> ShapeStyle {
        COLOURS[self.look % COLOURS.len()].stroke_width(2)
    }

    /// The mark of a curve: one of three, which help to tell curves apart without colours.
    fn mark<'a, At: Clone + 'static>(&self, at: At) -> DynElement<'static, SVGBackend<'a>, At> {
        let colour = COLOURS[self.look % COLOURS.len()];
        match self.look % 3 {
            0 => Circle::new(at, 3, colour.filled()).into_dyn(),
            1 => TriangleMarker::new(at, 4, colour.filled()).into_dyn(),
            _ => Cross::new(at, 3, colour.stroke_width(2)).into_dyn(),
        }
    }
}
